//! The submissions and outputs that producers send and get back.

use crate::error::Error;
use crate::json::Json;
use crate::random;

/// A submission that is to be inserted: its chunks and its other fields.
#[derive(Clone, Debug)]
pub struct NewSubmission {
    fields: Json,
    chunks: Json,
    key: Option<String>,
}

impl NewSubmission {
    /// One chunk per content: text or bytes.
    pub fn inline<T: AsRef<[u8]>>(contents: impl IntoIterator<Item = T>) -> NewSubmission {
        let inline = contents.into_iter().map(|content| Json::bytes(content.as_ref())).collect::<Vec<_>>();
        NewSubmission::of(Json::object([("inline", inline.into())]))
    }

    /// So many chunks whose contents follow a template, such as `row {index}`.
    pub fn template(count: u32, template: &str) -> NewSubmission {
        NewSubmission::of(Json::object([("count", count.into()), ("template", template.into())]))
    }

    /// So many chunks whose contents are objects in object storage, below this prefix.
    pub fn prefix(count: u32, prefix: &str) -> NewSubmission {
        NewSubmission::of(Json::object([("count", count.into()), ("prefix", prefix.into())]))
    }

    /// A submission whose chunks [`crate::Client::insert_stream`] sends.
    pub fn streamed() -> NewSubmission {
        NewSubmission::of(Json::Null)
    }

    fn of(chunks: Json) -> NewSubmission {
        NewSubmission { fields: Json::Object(vec![]), chunks, key: None }
    }

    /// Adds an entry to the meta, for strategies: a text or a number.
    pub fn meta(self, name: &str, value: impl Into<Json>) -> NewSubmission {
        let mut meta = Some(self.fields.get("meta").clone()).filter(|meta| *meta != Json::Null).unwrap_or(Json::Object(vec![]));
        meta.set(name, value);
        self.field("meta", meta)
    }

    /// Sets a field of the HTTP API, such as `priority`, `run_at`, `max_attempts` or `unique`.
    pub fn field(mut self, name: &str, value: impl Into<Json>) -> NewSubmission {
        self.fields.set(name, value);
        self
    }

    /// An idempotency key of your own. Without one the client makes a key for each insert.
    pub fn key(mut self, key: &str) -> NewSubmission {
        self.key = Some(key.to_string());
        self
    }

    /// The idempotency key of an insert.
    pub(crate) fn insert_key(&self) -> Result<String, Error> {
        let key = self.key.clone().unwrap_or_else(random::text);
        if key.is_empty() || key.len() > 255 || !visible(&key) {
            return Err(Error::Config(format!("the idempotency key {key:?} is not 1 to 255 visible ASCII characters")));
        }
        Ok(key)
    }

    /// The body of an insert; of a streamed one the first line.
    pub(crate) fn body(&self) -> Json {
        let mut body = self.fields.clone();
        if self.chunks != Json::Null {
            body.set("chunks", self.chunks.clone());
        }
        body
    }

    /// The submission as one of many.
    pub(crate) fn one_of_many(&self) -> Result<String, Error> {
        Ok(self.keyed(&self.insert_key()?))
    }

    /// The same with a key that was made before.
    pub(crate) fn keyed(&self, key: &str) -> String {
        let mut body = self.body();
        body.set("idempotency_key", key);
        body.to_string()
    }

    /// The submission for an insert with a completion. It needs no key: it is inserted with the completion or not at all.
    pub(crate) fn following(&self) -> String {
        let mut body = self.body();
        if let Some(key) = &self.key {
            body.set("idempotency_key", key.as_str());
        }
        body.to_string()
    }
}

/// A submission as the server has it.
#[derive(Clone, Debug)]
pub struct Submission {
    /// its permanent id
    pub id: String,
    /// `open`, `completed`, `completed_with_dead`, `failed`, `cancelled` or `expired`
    pub state: String,
    /// whether it was there before, under its unique key
    pub existing: bool,
    /// the server's JSON for it
    pub json: Json,
}

impl Submission {
    pub(crate) fn of(json: Json) -> Result<Submission, Error> {
        let (id, state) = (json.get("id").text().to_string(), json.get("state").text().to_string());
        if id.is_empty() || state.is_empty() {
            return Err(Error::BadAnswer(format!("this is no submission: {:.80}", json.to_string())));
        }
        Ok(Submission { id, state, existing: *json.get("existing") == Json::Bool(true), json })
    }
}

/// The output of a chunk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Output {
    /// the number of the chunk in its submission, from 0
    pub index: u32,
    /// the bytes that the consumer returned
    pub data: Vec<u8>,
}

/// Whether a text can stand in a header: nothing in it ends a line or changes its meaning.
pub(crate) fn visible(text: &str) -> bool {
    text.bytes().all(|byte| byte.is_ascii_graphic())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_submission_is_what_the_server_reads() {
        let new = NewSubmission::inline(["a", "b"]).meta("company", 123).meta("kind", "x").field("priority", 5).key("k");
        assert_eq!(new.body().to_string(), r#"{"meta":{"company":123,"kind":"x"},"priority":5,"chunks":{"inline":["a","b"]}}"#);
        assert!(new.one_of_many().unwrap().ends_with(r#""idempotency_key":"k"}"#));
        assert_eq!(NewSubmission::template(2, "row {index}").following(), r#"{"chunks":{"count":2,"template":"row {index}"}}"#);
        assert_eq!(NewSubmission::streamed().body().to_string(), "{}");
    }

    #[test]
    fn keys_are_made_and_checked() {
        let new = NewSubmission::inline(["a"]);
        assert_ne!(new.insert_key().unwrap(), new.insert_key().unwrap());
        assert!(new.clone().key("").insert_key().is_err() && new.key("a\r\nb").insert_key().is_err());
    }
}
