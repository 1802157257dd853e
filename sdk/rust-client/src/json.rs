//! JSON: a value, its reader and its writer. The standard library has none.

use crate::base64;

/// How deep values may be nested. The server's own answers need five levels.
const MAX_DEPTH: usize = 100;

/// A JSON value. Objects keep the order of their fields.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum Json {
    /// `null`, also what [`Json::get`] returns for a field that is not there
    #[default]
    Null,
    /// `true` or `false`
    Bool(bool),
    /// a number without fraction
    Int(i64),
    /// any other number
    Float(f64),
    /// a text
    Text(String),
    /// an array
    List(Vec<Json>),
    /// an object
    Object(Vec<(String, Json)>),
}

macro_rules! from {
    ($($type:ty => $make:expr),*) => { $(impl From<$type> for Json {
        fn from(value: $type) -> Json {
            $make(value)
        }
    })* };
}
from!(bool => Json::Bool, i64 => Json::Int, f64 => Json::Float, String => Json::Text, Vec<Json> => Json::List,
    i32 => |n| Json::Int(i64::from(n)), u32 => |n| Json::Int(i64::from(n)), &str => |s| Json::Text(String::from(s)));

impl Json {
    /// An object with these fields.
    pub fn object<const N: usize>(fields: [(&str, Json); N]) -> Json {
        Json::Object(fields.into_iter().map(|(name, value)| (name.to_string(), value)).collect())
    }

    /// Bytes as the server reads them: a text, or `{"base64": "..."}` where they are no UTF-8.
    pub fn bytes(data: &[u8]) -> Json {
        match std::str::from_utf8(data) {
            Ok(text) => Json::from(text),
            Err(_) => Json::object([("base64", base64::encode(data).into())]),
        }
    }

    /// The bytes of `"text"`, `{"text": "..."}` or `{"base64": "..."}`; `None` when it is not one of these.
    pub fn into_bytes(mut self) -> Option<Vec<u8>> {
        match (self.take("text"), self.take("base64"), self) {
            (Json::Text(text), _, _) | (_, _, Json::Text(text)) => Some(text.into_bytes()),
            (_, Json::Text(text), _) => base64::decode(&text),
            _ => None,
        }
    }

    /// A field of an object, or `Null`.
    pub fn get(&self, name: &str) -> &Json {
        match self {
            Json::Object(fields) => fields.iter().find(|(key, _)| key == name).map_or(&Json::Null, |(_, value)| value),
            _ => &Json::Null,
        }
    }

    /// Takes a field out of an object; `Null` stays in its place.
    pub(crate) fn take(&mut self, name: &str) -> Json {
        match self {
            Json::Object(fields) => fields.iter_mut().find(|(key, _)| key == name).map_or(Json::Null, |(_, value)| std::mem::take(value)),
            _ => Json::Null,
        }
    }

    /// Sets a field of an object.
    pub fn set(&mut self, name: &str, value: impl Into<Json>) {
        if let Json::Object(fields) = self {
            fields.retain(|(key, _)| key != name);
            fields.push((name.to_string(), value.into()));
        }
    }

    /// The values of an array; none of anything else.
    pub fn items(&self) -> &[Json] {
        match self {
            Json::List(items) => items,
            _ => &[],
        }
    }

    pub(crate) fn into_items(self) -> Vec<Json> {
        match self {
            Json::List(items) => items,
            _ => vec![],
        }
    }

    /// The text, or `""` of anything else.
    pub fn text(&self) -> &str {
        match self {
            Json::Text(text) => text,
            _ => "",
        }
    }

    /// The number, if it has no fraction.
    pub fn int(&self) -> Option<i64> {
        match self {
            Json::Int(n) => Some(*n),
            _ => None,
        }
    }

    /// Reads a JSON text.
    pub fn parse(text: &[u8]) -> Result<Json, String> {
        let text = std::str::from_utf8(text).map_err(|fault| fault.to_string())?;
        let mut reader = Reader { text, at: 0 };
        let value = reader.value(0)?;
        reader.space();
        if reader.at < text.len() {
            return Err(reader.wrong("the end"));
        }
        Ok(value)
    }

    fn write(&self, out: &mut String) {
        match self {
            Json::Null => out.push_str("null"),
            Json::Bool(value) => out.push_str(if *value { "true" } else { "false" }),
            Json::Int(n) => out.push_str(&n.to_string()),
            Json::Float(n) if n.is_finite() => out.push_str(&format!("{n:?}")), // 2.0 stays a number with a fraction
            Json::Float(_) => out.push_str("null"),                             // JSON has no NaN and no infinity
            Json::Text(text) => write_text(text, out),
            Json::List(items) => {
                for (i, item) in items.iter().enumerate() {
                    out.push(if i == 0 { '[' } else { ',' });
                    item.write(out);
                }
                out.push_str(if items.is_empty() { "[]" } else { "]" });
            }
            Json::Object(fields) => {
                for (i, (name, value)) in fields.iter().enumerate() {
                    out.push(if i == 0 { '{' } else { ',' });
                    write_text(name, out);
                    out.push(':');
                    value.write(out);
                }
                out.push_str(if fields.is_empty() { "{}" } else { "}" });
            }
        }
    }
}

impl std::fmt::Display for Json {
    /// The value as JSON, without spaces.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut out = String::new();
        self.write(&mut out);
        f.write_str(&out)
    }
}

fn write_text(text: &str, out: &mut String) {
    out.push('"');
    let mut plain = 0; // where the part begins that stays as it is
    for (i, byte) in text.bytes().enumerate().filter(|(_, byte)| *byte < b' ' || matches!(byte, b'"' | b'\\')) {
        out.push_str(&text[plain..i]);
        plain = i + 1;
        match byte {
            b'"' | b'\\' => out.extend(['\\', byte as char]),
            b'\n' => out.push_str("\\n"),
            _ => out.push_str(&format!("\\u{byte:04x}")),
        }
    }
    out.push_str(&text[plain..]);
    out.push('"');
}

struct Reader<'a> {
    text: &'a str,
    at: usize,
}

impl<'a> Reader<'a> {
    fn wrong(&self, wanted: &str) -> String {
        format!("byte {}: {wanted} is expected", self.at)
    }

    fn peek(&self) -> u8 {
        self.text.as_bytes().get(self.at).copied().unwrap_or(0)
    }

    fn space(&mut self) {
        while matches!(self.peek(), b' ' | b'\n' | b'\r' | b'\t') {
            self.at += 1;
        }
    }

    /// Goes past a word, if it comes next.
    fn take(&mut self, word: &str) -> bool {
        let is = self.text.as_bytes()[self.at..].starts_with(word.as_bytes());
        self.at += if is { word.len() } else { 0 };
        is
    }

    fn value(&mut self, depth: usize) -> Result<Json, String> {
        if depth > MAX_DEPTH {
            return Err(self.wrong("a value that is less deep"));
        }
        self.space();
        match self.peek() {
            b'{' => self.object(depth),
            b'[' => {
                self.at += 1;
                let mut items = Vec::new();
                self.space();
                while !self.take("]") {
                    items.push(self.value(depth + 1)?);
                    self.next(b']')?;
                }
                Ok(Json::List(items))
            }
            b'"' => self.string().map(Json::Text),
            b'-' | b'0'..=b'9' => self.number(),
            _ if self.take("true") => Ok(Json::Bool(true)),
            _ if self.take("false") => Ok(Json::Bool(false)),
            _ if self.take("null") => Ok(Json::Null),
            _ => Err(self.wrong("a value")),
        }
    }

    fn object(&mut self, depth: usize) -> Result<Json, String> {
        self.at += 1;
        let mut fields = Vec::new();
        self.space();
        while !self.take("}") {
            let name = self.string()?;
            self.space();
            if !self.take(":") {
                return Err(self.wrong("a colon"));
            }
            fields.push((name, self.value(depth + 1)?));
            self.next(b'}')?;
        }
        Ok(Json::Object(fields))
    }

    /// Goes to the next item of a list, or to its end.
    fn next(&mut self, end: u8) -> Result<(), String> {
        self.space();
        if self.peek() == end {
            return Ok(());
        }
        if !self.take(",") {
            return Err(self.wrong("a comma or the end of the list"));
        }
        self.space();
        if self.peek() == end {
            return Err(self.wrong("a value"));
        }
        Ok(())
    }

    fn number(&mut self) -> Result<Json, String> {
        let begin = self.at;
        while matches!(self.peek(), b'-' | b'+' | b'.' | b'e' | b'E' | b'0'..=b'9') {
            self.at += 1;
        }
        let text = &self.text[begin..self.at];
        let int = text.parse().map(Json::Int);
        int.or_else(|_| text.parse().map(Json::Float)).map_err(|_| format!("byte {begin}: {text} is no number"))
    }

    fn string(&mut self) -> Result<String, String> {
        if !self.take("\"") {
            return Err(self.wrong("a text"));
        }
        let mut out = String::new();
        loop {
            let rest = &self.text[self.at..];
            let plain = rest.bytes().position(|byte| byte < b' ' || matches!(byte, b'"' | b'\\')).ok_or_else(|| self.wrong("a quote"))?;
            out.push_str(&rest[..plain]);
            self.at += plain;
            match self.peek() {
                b'"' => {
                    self.at += 1;
                    return Ok(out);
                }
                b'\\' => out.push(self.escape()?),
                _ => return Err(self.wrong("no control character")),
            }
        }
    }

    fn escape(&mut self) -> Result<char, String> {
        self.at += 2;
        Ok(match self.text.as_bytes().get(self.at - 1).copied().unwrap_or(0) {
            byte @ (b'"' | b'\\' | b'/') => byte as char,
            b'b' => '\u{8}',
            b'f' => '\u{c}',
            b'n' => '\n',
            b'r' => '\r',
            b't' => '\t',
            b'u' => {
                let first = self.hex()?;
                let mut code = first;
                if (0xd800..0xdc00).contains(&first) && self.take("\\u") {
                    let second = self.hex()?;
                    code = 0x10000 + ((first - 0xd800) << 10) + (second.wrapping_sub(0xdc00) & 0x3ff);
                }
                char::from_u32(code).unwrap_or(char::REPLACEMENT_CHARACTER) // half a pair is no character
            }
            _ => return Err(self.wrong("an escape")),
        })
    }

    fn hex(&mut self) -> Result<u32, String> {
        let digits = self.text.get(self.at..self.at + 4).ok_or_else(|| self.wrong("four digits"))?;
        self.at += 4;
        u32::from_str_radix(digits, 16).map_err(|_| self.wrong("four hexadecimal digits"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_come_back() {
        let text = r#"{"a":[1,-2,2.5,null,true,false,[],{}],"big":9223372036854775807,"text":"\"\\\n\u0001é😀/"}"#;
        let value = Json::parse(text.as_bytes()).unwrap();
        assert_eq!(value.to_string(), text);
        assert_eq!(value.get("big").int(), Some(i64::MAX));
        assert_eq!(value.get("a").items().len(), 8);
        assert_eq!(value.get("nothing"), &Json::Null);
        assert_eq!(Json::parse(r#" [ "\ud83d\ude00\u00e9\/\ud800" , 1e3 ] "#.as_bytes()).unwrap().to_string(), "[\"😀é/\u{fffd}\",1000.0]");
    }

    #[test]
    fn what_is_no_json_is_refused() {
        let deep = "[".repeat(1000);
        for text in
            ["", "{", "[1,]", "[1 2]", "{\"a\" 1}", "\"a", "\"\\x\"", "\"\\u12\"", "1 2", "-", "tru", "\"\n\"", "{,}", "\"\\", &deep]
        {
            assert!(Json::parse(text.as_bytes()).is_err(), "{text:.20} was read");
        }
        assert!(Json::parse(b"\"\xff\"").is_err());
    }

    #[test]
    fn bytes_are_text_or_base64() {
        for (data, text) in [(&b"a\"b"[..], r#""a\"b""#), (&b"\xff\x00"[..], r#"{"base64":"/wA="}"#)] {
            assert_eq!(Json::bytes(data).to_string(), text);
            assert_eq!(Json::bytes(data).into_bytes().unwrap(), data);
        }
        assert_eq!(Json::object([("text", "x".into())]).into_bytes().unwrap(), b"x");
        assert!(Json::Int(1).into_bytes().is_none() && Json::object([("base64", "?".into())]).into_bytes().is_none());
    }
}
