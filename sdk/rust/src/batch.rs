use crate::abi;
use core::marker::PhantomData;

/// One call's candidates. It and its slices are valid during the call only.
#[derive(Clone, Copy)]
pub struct Batch<'a> {
    base: *const u8,
    rows: usize,
    region: PhantomData<&'a u8>,
}

impl<'a> Batch<'a> {
    /// The batch whose region begins at base, and where its scores go.
    ///
    /// # Safety
    /// The region is one that the host wrote, of this ABI, aligned to 16 bytes, and nothing else uses it for as long as 'a.
    #[doc(hidden)]
    #[inline(always)]
    pub unsafe fn over(base: *mut u8) -> (Batch<'a>, &'a mut [f64]) {
        let mut b = Batch { base, rows: 0, region: PhantomData };
        b.rows = b.word(abi::ROWS) as usize;
        let scores = base.add(b.word(abi::SCORES) as usize) as *mut f64;
        (b, core::slice::from_raw_parts_mut(scores, b.rows))
    }

    /// The number of candidates.
    #[inline(always)]
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// The time of the batch in milliseconds since 1970. It does not move during the call.
    #[inline(always)]
    pub fn now(&self) -> i64 {
        self.long(abi::NOW) as i64
    }

    /// The only source of chance: the same batch scored again has the same seed.
    #[inline(always)]
    pub fn seed(&self) -> u64 {
        self.long(abi::SEED)
    }

    /// How many chunks will be taken.
    #[inline(always)]
    pub fn want(&self) -> u32 {
        self.word(abi::WANT)
    }

    /// Whether the scores are not acted on.
    #[inline(always)]
    pub fn dry_run(&self) -> bool {
        self.word(abi::FLAGS) & abi::FLAG_DRY_RUN != 0
    }

    /// Whether the scores are only compared with those of another version.
    #[inline(always)]
    pub fn shadow(&self) -> bool {
        self.word(abi::FLAGS) & abi::FLAG_SHADOW != 0
    }

    /// Copies the string of an id into buf, as much as fits, and gives that part; None when the id is not known. A string has
    /// at most 1024 bytes. Comparing ids is 40 times cheaper.
    pub fn text<'b>(&self, id: u32, buf: &'b mut [u8]) -> Option<&'b [u8]> {
        let n = crate::host::text(id, buf)?;
        Some(&buf[..n.min(buf.len())])
    }

    #[inline(always)]
    fn word(&self, at: usize) -> u32 {
        u32::from_le(unsafe { *(self.base.add(at) as *const u32) })
    }

    #[inline(always)]
    fn long(&self, at: usize) -> u64 {
        u64::from_le(unsafe { *(self.base.add(at) as *const u64) })
    }

    #[inline(always)]
    fn descriptor(&self, index: usize, field: usize) -> usize {
        self.word(self.word(abi::DESCRIPTORS) as usize + index * abi::DESCRIPTOR_SIZE + field) as usize
    }

    #[inline(always)]
    fn values<T>(&self, index: usize, rows: usize) -> &'a [T] {
        // The host wrote the descriptors, and the macro gives a column its type from the same line as the manifest.
        unsafe { core::slice::from_raw_parts(self.base.add(self.descriptor(index, 0)) as *const T, rows) }
    }

    #[inline(always)]
    fn valid(&self, index: usize, rows: usize) -> &'a [bool] {
        match self.descriptor(index, 8) {
            0 => &[],
            at => unsafe { core::slice::from_raw_parts(self.base.add(at) as *const bool, rows) },
        }
    }
}

/// A column of i64 values: submission_id, priority, age_ms, meta_i64:KEY, limit:KEY.
#[derive(Clone, Copy)]
pub struct I64Column(usize);

/// A column of u32 values: index, attempts, max_attempts, available, total, skipped, inflight_submission, inflight:KEY.
#[derive(Clone, Copy)]
pub struct U32Column(usize);

/// A column of strings, as ids: meta_str:KEY.
#[derive(Clone, Copy)]
pub struct StrColumn(usize);

/// A whole number of the reservation's context.
#[derive(Clone, Copy)]
pub struct ContextI64(usize);

/// A string of the reservation's context.
#[derive(Clone, Copy)]
pub struct ContextStr(usize);

macro_rules! column {
    ($column:ident, $value:ty) => {
        impl $column {
            #[doc(hidden)]
            pub const fn at(index: usize) -> Self {
                $column(index)
            }

            /// One value per candidate; 0 where it is absent. Of strings it is an id: equal ids are equal strings, in all
            /// string columns of the batch.
            #[inline(always)]
            pub fn of<'a>(self, b: &Batch<'a>) -> &'a [$value] {
                b.values(self.0, b.rows)
            }

            /// Which candidates have the value. Only meta columns may lack it; of others this is empty.
            #[inline(always)]
            pub fn valid<'a>(self, b: &Batch<'a>) -> &'a [bool] {
                b.valid(self.0, b.rows)
            }
        }
    };
}

column!(I64Column, i64);
column!(U32Column, u32);
column!(StrColumn, u32);

impl ContextI64 {
    #[doc(hidden)]
    pub const fn at(index: usize) -> Self {
        ContextI64(index)
    }

    /// The number, or None when the reservation does not carry it.
    #[inline(always)]
    pub fn of(self, b: &Batch) -> Option<i64> {
        b.valid(self.0, 1)[0].then(|| b.values(self.0, 1)[0])
    }
}

impl ContextStr {
    #[doc(hidden)]
    pub const fn at(index: usize) -> Self {
        ContextStr(index)
    }

    /// The string's id, or 0 when the reservation does not carry it.
    #[inline(always)]
    pub fn of(self, b: &Batch) -> u32 {
        b.values::<u32>(self.0, 1)[0]
    }
}
