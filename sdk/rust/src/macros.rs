/// Declares the plugin of this module, once: the type that implements [`crate::Plugin`], its manifest, a constant for each
/// column, context key and counter, and the functions that the module exports. The manifest becomes the section
/// quern.manifest of the module.
///
/// In this order, all but name, version and columns optional: name, version, license, author, home, columns
/// (`NAME: i64|u32|str = "column"`), context (`NAME: i64|str = "key"`), counters (`NAME = "name"`), config_schema (JSON),
/// state ("pooled", "reset", "fresh"), take ("all", "spread"), window (default, max), needs (pages, fuel_per_candidate). A
/// column that does not exist or has another type is an error of the compiler.
#[macro_export]
macro_rules! plugin {
    (
        $plugin:ty,
        name: $name:literal,
        version: $version:literal,
        $(license: $license:literal,)?
        $(author: $author:literal,)?
        $(home: $home:literal,)?
        columns: { $($column:ident: $kind:ident = $from:literal),* $(,)? },
        $(context: { $($key:ident: $key_kind:ident = $key_from:literal),* $(,)? },)?
        $(counters: { $($counter:ident = $counted:literal),* $(,)? },)?
        $(config_schema: $schema:literal,)?
        $(state: $state:literal,)?
        $(take: $take:literal,)?
        $(window: ($default:literal, $max:literal),)?
        $(needs: ($pages:literal, $fuel:literal),)?
    ) => {
        const _: () = {
            $(assert!($crate::column_is($from, $crate::Type::$kind), concat!("no column is called ", $from, " and of the type ", stringify!($kind)));)*
            $($(assert!($crate::column_is(concat!("context.", $key_from), $crate::Type::$key_kind), concat!($key_from, " is no context key, or its type is neither i64 nor str"));)*)?
        };
        #[allow(non_camel_case_types, dead_code, clippy::upper_case_acronyms)]
        enum QuernColumn { $($column,)* $($($key,)*)? }
        #[allow(non_camel_case_types, dead_code, clippy::upper_case_acronyms)]
        enum QuernCounter { $($($counter,)*)? }
        $(const $column: $crate::plugin!(@column $kind) = <$crate::plugin!(@column $kind)>::at(QuernColumn::$column as usize);)*
        $($(const $key: $crate::plugin!(@context $key_kind) = <$crate::plugin!(@context $key_kind)>::at(QuernColumn::$key as usize);)*)?
        $($(const $counter: $crate::Counter = $crate::Counter::at(QuernCounter::$counter as usize);)*)?

        const QUERN_TEXT: &str = concat!(
            "{\"name\":\"", $name, "\",\"version\":\"", $version, "\",\"abi\":1,",
            $("\"license\":\"", $license, "\",",)? $("\"author\":\"", $author, "\",",)? $("\"home\":\"", $home, "\",",)?
            "\"columns\":[", $("\"", $from, "\",",)* "],",
            $("\"context\":[", $("{\"key\":\"", $key_from, "\",\"type\":\"", stringify!($key_kind), "\"},",)* "],",)?
            $("\"counters\":[", $("\"", $counted, "\",",)* "],",)?
            $("\"config_schema\":", $schema, ",",)? $("\"state\":\"", $state, "\",",)? $("\"take\":\"", $take, "\",",)?
            $("\"window\":{\"default\":", $default, ",\"max\":", $max, "},",)?
            $("\"needs\":{\"pages\":", $pages, ",\"fuel_per_candidate\":", $fuel, "},",)?
            "}\n"
        );
        #[cfg_attr(target_arch = "wasm32", link_section = "quern.manifest")]
        #[used]
        static QUERN_MANIFEST: [u8; QUERN_TEXT.len()] = $crate::declared(QUERN_TEXT);

        impl $crate::Declared for $plugin {
            const MANIFEST: &'static str = {
                const BYTES: [u8; QUERN_TEXT.len()] = $crate::declared(QUERN_TEXT);
                match core::str::from_utf8(&BYTES) {
                    Ok(text) => text,
                    Err(_) => panic!("the manifest is no UTF-8"),
                }
            };
            const COLUMNS: &'static [(&'static str, $crate::Type)] =
                &[$(($from, $crate::Type::$kind),)* $($((concat!("context.", $key_from), $crate::Type::$key_kind),)*)?];
            const COUNTERS: &'static [&'static str] = &[$($($counted,)*)?];
        }

        #[cfg(target_arch = "wasm32")]
        mod quern_exports {
            use $crate::{Declared, Plugin};

            static mut PLUGIN: Option<super::QuernPlugin> = None;

            #[no_mangle]
            extern "C" fn quern_abi_1() {}

            #[no_mangle]
            extern "C" fn quern_alloc(size: usize) -> *mut u8 {
                $crate::alloc(size)
            }

            #[no_mangle]
            unsafe extern "C" fn quern_init(config: *const u8, size: usize) -> i32 {
                let setup = $crate::Setup::new(core::slice::from_raw_parts(config, size), <super::QuernPlugin as Declared>::COLUMNS);
                match <super::QuernPlugin as Plugin>::init(&setup) {
                    Ok(plugin) => {
                        *core::ptr::addr_of_mut!(PLUGIN) = Some(plugin);
                        0
                    }
                    Err(why) => {
                        $crate::log($crate::Level::Error, why);
                        1
                    }
                }
            }

            #[no_mangle]
            unsafe extern "C" fn quern_score(region: *mut u8) -> i32 {
                let (batch, scores) = $crate::Batch::over(region);
                match &mut *core::ptr::addr_of_mut!(PLUGIN) {
                    Some(plugin) => plugin.score(&batch, scores),
                    None => return 2,
                }
                0
            }
        }
        #[cfg(target_arch = "wasm32")]
        type QuernPlugin = $plugin;
    };
    (@column i64) => { $crate::I64Column };
    (@column u32) => { $crate::U32Column };
    (@column str) => { $crate::StrColumn };
    (@context i64) => { $crate::ContextI64 };
    (@context str) => { $crate::ContextStr };
}
