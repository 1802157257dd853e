/// A value of the configuration. The host has checked it against the manifest's schema and filled in the defaults, so this
/// only reads: a value that is missing or of another type is None.
#[derive(Clone, Copy)]
pub struct Value<'a>(&'a [u8]);

impl<'a> Value<'a> {
    #[doc(hidden)]
    pub fn new(json: &'a [u8]) -> Self {
        Value(json)
    }

    /// The value under a key of an object. The key needs no escapes.
    pub fn get(&self, key: &str) -> Option<Value<'a>> {
        self.entries().find(|(k, _)| k.0.get(1..k.0.len() - 1) == Some(key.as_bytes())).map(|(_, v)| v)
    }

    /// Keys and values of an object, in the keys' order. A key is a string: [`Value::text`] reads it.
    pub fn entries(&self) -> impl Iterator<Item = (Value<'a>, Value<'a>)> {
        let mut rest = match self.0 {
            [b'{', inside @ ..] => inside,
            _ => &[],
        };
        core::iter::from_fn(move || {
            let (key, behind) = cut(rest)?;
            let (value, behind) = cut(behind.get(1..)?)?;
            rest = behind.get(1..).unwrap_or(&[]);
            Some((Value(key), Value(value)))
        })
    }

    /// The number, whole or not.
    pub fn number(&self) -> Option<f64> {
        core::str::from_utf8(self.0).ok()?.parse().ok()
    }

    /// The whole number.
    pub fn whole(&self) -> Option<i64> {
        core::str::from_utf8(self.0).ok()?.parse().ok()
    }

    /// The truth value.
    pub fn truth(&self) -> Option<bool> {
        match self.0 {
            b"true" => Some(true),
            b"false" => Some(false),
            _ => None,
        }
    }

    /// The string, its escapes resolved, in buf; None when it does not fit. A dictionary string has at most 1024 bytes.
    pub fn text<'b>(&self, buf: &'b mut [u8]) -> Option<&'b str> {
        let mut inside = match self.0 {
            [b'"', inside @ .., b'"'] => inside,
            _ => return None,
        };
        let mut n = 0;
        while let [c, rest @ ..] = inside {
            inside = rest;
            let mut one = [*c, 0, 0, 0];
            let mut size = 1;
            if *c == b'\\' {
                let (c, rest) = escape(inside)?;
                inside = rest;
                size = c.encode_utf8(&mut one).len();
            }
            buf.get_mut(n..n + size)?.copy_from_slice(&one[..size]);
            n += size;
        }
        core::str::from_utf8(&buf[..n]).ok()
    }
}

/// The character of an escape, behind its backslash, and the rest of the text.
fn escape(text: &[u8]) -> Option<(char, &[u8])> {
    let (kind, rest) = text.split_first()?;
    let c = match kind {
        b'n' => '\n',
        b't' => '\t',
        b'r' => '\r',
        b'b' => '\u{8}',
        b'f' => '\u{c}',
        b'u' => return unicode(rest),
        other => *other as char,
    };
    Some((c, rest))
}

fn unicode(text: &[u8]) -> Option<(char, &[u8])> {
    let four = |text: &[u8]| u32::from_str_radix(core::str::from_utf8(text.get(..4)?).ok()?, 16).ok();
    let (high, rest) = (four(text)?, &text[4..]);
    if let (0xd800..=0xdbff, [b'\\', b'u', low @ ..]) = (high, rest) {
        let c = 0x10000 + ((high - 0xd800) << 10) + four(low)?.wrapping_sub(0xdc00);
        return Some((char::from_u32(c)?, &low[4..]));
    }
    Some((char::from_u32(high)?, rest))
}

/// The value at the beginning of text, and the rest of the text. The text is in canonical form: no spaces.
fn cut(text: &[u8]) -> Option<(&[u8], &[u8])> {
    let (mut depth, mut quoted, mut i) = (0usize, false, 0);
    while i < text.len() {
        match text[i] {
            b'\\' => i += 1,
            b'"' => quoted = !quoted,
            _ if quoted => {}
            b'{' | b'[' => depth += 1,
            b'}' | b']' | b',' | b':' if depth == 0 => break,
            b'}' | b']' => depth -= 1,
            _ => {}
        }
        i += 1;
    }
    (i > 0).then(|| text.split_at(i.min(text.len())))
}
