//! Kinds of work: one worker with a handler for each value of `meta.kind`.

use crate::chunk::{Chunk, Failure, Returned};
use crate::client::Client;
use crate::error::Error;
use crate::json::Json;
use crate::worker::WorkOptions;
use std::collections::BTreeMap;

/// The meta key that names the kind of a submission.
pub const META_KIND: &str = "kind";

const MAX_KINDS: usize = 64; // values that SelectAny takes

type Handler<'a> = Box<dyn Fn(&Chunk) -> Result<Returned, Failure> + Send + Sync + 'a>;

/// Handlers by kind, for [`Client::work_kinds`]. A submission has its kind in `meta.kind`.
#[derive(Default)]
pub struct Kinds<'a>(BTreeMap<String, Handler<'a>>);

impl<'a> Kinds<'a> {
    /// Adds the handler of a kind, or replaces it.
    pub fn handle<R: Into<Returned>>(mut self, kind: &str, handler: impl Fn(&Chunk) -> Result<R, Failure> + Send + Sync + 'a) -> Kinds<'a> {
        self.0.insert(kind.to_string(), Box::new(move |chunk| handler(chunk).map(Into::into)));
        self
    }

    /// A strategy for these kinds only.
    fn select(&self, strategy: &Json) -> Result<Json, Error> {
        if self.0.is_empty() || self.0.len() > MAX_KINDS {
            return Err(Error::Config(format!("a worker has 1 to {MAX_KINDS} kinds, and this one has {}", self.0.len())));
        }
        let underlying = match strategy {
            Json::Null => Json::from("Random"),
            Json::Object(_) if *strategy.get("type") == Json::Null => {
                let text = "a strategy by name selects what it says: give the strategy itself beside kinds, or no kinds";
                return Err(Error::Config(text.to_string()));
            }
            given => given.clone(),
        };
        let values = self.0.keys().map(|kind| Json::from(&**kind)).collect::<Vec<_>>();
        Ok(Json::object([
            ("type", "select_any".into()),
            ("meta_field", META_KIND.into()),
            ("values", values.into()),
            ("underlying", underlying),
        ]))
    }

    fn run(&self, chunk: &Chunk) -> Result<Returned, Failure> {
        let kind = chunk.json.get("meta").get(META_KIND).text();
        match self.0.get(kind) {
            Some(handler) => handler(chunk),
            None => Err(Failure::Permanent(format!("no handler for the kind {kind:?}"))), // the strategy selects no such chunk
        }
    }
}

impl Client {
    /// [`Client::work`] for several kinds: it reserves the chunks whose `meta.kind` has a handler, and no others, in the order of
    /// `options.strategy`. That is in text form or a tree, not a name.
    pub fn work_kinds(&self, mut options: WorkOptions, kinds: Kinds<'_>) -> Result<(), Error> {
        options.strategy = kinds.select(&options.strategy)?;
        self.work(options, |chunk| kinds.run(chunk))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_strategy_selects_the_kinds() {
        let kinds = Kinds::default().handle("resize", |_| Ok(())).handle("mail \"x\"", |_| Ok("sent".to_string()));
        let select = |strategy: Json| kinds.select(&strategy).map(|strategy| strategy.to_string());
        let head = r#"{"type":"select_any","meta_field":"kind","values":["mail \"x\"","resize"],"underlying":"#;
        assert_eq!(select(Json::Null).unwrap(), format!("{head}\"Random\"}}"));
        assert_eq!(select("OldestFirst".into()).unwrap(), format!("{head}\"OldestFirst\"}}"));
        let tree = Json::object([("type", "random".into())]);
        assert_eq!(select(tree).unwrap(), format!("{head}{{\"type\":\"random\"}}}}"));
        assert!(select(Json::object([("name", "nightly".into())])).is_err());
        assert!(Kinds::default().select(&Json::Null).is_err());
        let many = (0..65).fold(Kinds::default(), |kinds, n| kinds.handle(&n.to_string(), |_| Ok(())));
        assert!(many.select(&Json::Null).is_err());
    }
}
