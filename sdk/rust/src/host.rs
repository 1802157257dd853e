use crate::abi::Type;
use crate::config::Value;

/// How much a log line matters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Level {
    /// For the author of the plugin.
    Debug = 0,
    /// Worth knowing.
    Info = 1,
    /// Odd.
    Warn = 2,
    /// Wrong.
    Error = 3,
}

/// Writes one line to the plugin's log. The host keeps 1 KiB of it and 32 lines per batch.
pub fn log(level: Level, text: &str) {
    imports::log(level, text.as_bytes())
}

/// Whether the host keeps lines of that level; if not, there is no need to build them.
pub fn log_enabled(level: Level) -> bool {
    imports::log_enabled(level)
}

/// The string's length, with as much of it as fits in buf.
pub(crate) fn text(id: u32, buf: &mut [u8]) -> Option<usize> {
    usize::try_from(imports::str(id, buf)).ok()
}

/// A number that the host adds up over all instances and shows as a metric.
#[derive(Clone, Copy)]
pub struct Counter(usize);

impl Counter {
    #[doc(hidden)]
    pub const fn at(index: usize) -> Self {
        Counter(index)
    }

    /// Adds v, which is finite and not negative; other values are dropped.
    pub fn add(self, v: f64) {
        imports::metric_add(self.0 as u32, v)
    }
}

/// The configuration and the dictionary, for [`crate::Plugin::init`].
pub struct Setup<'a> {
    json: &'a [u8],
    strings: u32,
}

impl<'a> Setup<'a> {
    #[doc(hidden)]
    pub fn new(json: &'a [u8], columns: &[(&str, Type)]) -> Self {
        let strings = columns.iter().position(|(_, t)| *t == Type::str).map_or(u32::MAX, |i| i as u32);
        Setup { json, strings }
    }

    /// The configuration: an object, empty when nothing is configured.
    pub fn config(&self) -> Value<'a> {
        Value::new(self.json)
    }

    /// The id that every string column will carry for text, for the life of the instance: compare ids instead of strings. 0
    /// means that the dictionary is full (4,096 strings) or the plugin declares no string column, and equals no string.
    pub fn intern(&self, text: &str) -> u32 {
        imports::intern(self.strings, text.as_bytes())
    }
}

#[cfg(not(target_arch = "wasm32"))]
use crate::testing as imports;

#[cfg(target_arch = "wasm32")]
mod imports {
    use super::Level;

    mod raw {
        #[link(wasm_import_module = "quern_v1")]
        extern "C" {
            pub fn log(level: u32, text: *const u8, size: usize);
            pub fn log_enabled(level: u32) -> u32;
            pub fn metric_add(id: u32, v: f64);
            pub fn intern(column: u32, text: *const u8, size: usize) -> u32;
            #[link_name = "str"]
            pub fn text(id: u32, buf: *mut u8, size: usize) -> i32;
        }
    }

    pub fn log(level: Level, text: &[u8]) {
        unsafe { raw::log(level as u32, text.as_ptr(), text.len()) }
    }
    pub fn log_enabled(level: Level) -> bool {
        unsafe { raw::log_enabled(level as u32) != 0 }
    }
    pub fn metric_add(id: u32, v: f64) {
        unsafe { raw::metric_add(id, v) }
    }
    pub fn intern(column: u32, text: &[u8]) -> u32 {
        unsafe { raw::intern(column, text.as_ptr(), text.len()) }
    }
    pub fn str(id: u32, buf: &mut [u8]) -> i32 {
        unsafe { raw::text(id, buf.as_mut_ptr(), buf.len()) }
    }

    /// A panic logs its place and traps, which the host counts as a fault.
    #[panic_handler]
    fn panic(info: &core::panic::PanicInfo) -> ! {
        let mut line = [0; 96];
        let mut n = 0;
        let mut put = |bytes: &[u8]| {
            for c in bytes.iter().take(96 - n) {
                line[n] = *c;
                n += 1;
            }
        };
        put(b"panic at ");
        if let Some(at) = info.location() {
            let file = at.file().as_bytes();
            put(&file[file.len().saturating_sub(64)..]);
            put(b":");
            let mut digits = [0; 10];
            let (mut first, mut rest) = (digits.len(), at.line());
            while first == digits.len() || rest > 0 {
                first -= 1;
                digits[first] = b'0' + (rest % 10) as u8;
                rest /= 10;
            }
            put(&digits[first..]);
        }
        log(Level::Error, &line[..n]);
        core::arch::wasm32::unreachable()
    }
}

/// Room for the host. Nothing is ever given back. It begins behind the module's own data and grows the memory when that is
/// full; an allocator that the plugin brings may grow it in between.
#[cfg(target_arch = "wasm32")]
#[doc(hidden)]
pub fn alloc(size: usize) -> *mut u8 {
    const PAGE: usize = 65536;
    extern "C" {
        static __heap_base: u8;
    }
    static mut FREE: (usize, usize) = (0, 0);
    unsafe {
        let free = core::ptr::addr_of_mut!(FREE);
        if *free == (0, 0) {
            *free = (core::ptr::addr_of!(__heap_base) as usize, core::arch::wasm32::memory_size(0) * PAGE);
        }
        let (mut from, end) = *free;
        from = (from + 15) & !15;
        if size > end.saturating_sub(from) {
            let pages = size / PAGE + 1;
            let old = core::arch::wasm32::memory_grow(0, pages);
            if old == usize::MAX {
                return core::ptr::null_mut();
            }
            if old * PAGE != end {
                from = old * PAGE;
            }
            (*free).1 = (old + pages) * PAGE;
        }
        (*free).0 = from + size;
        from as *mut u8
    }
}
