//! Kinds of work: one worker with a handler for each value of `meta.kind`.

use crate::chunk::{Chunk, Failure, Returned};
use crate::client::Client;
use crate::error::Error;
use crate::json::Json;
use crate::worker::{Stop, WorkOptions};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// The meta key that names the kind of a submission.
pub const META_KIND: &str = "kind";

const MAX_KINDS: usize = 64; // values that SelectAny takes
const MAX_CONSUMER_BYTES: usize = 128;

type Retry<'a> = Box<dyn Fn(&Chunk, &str) -> Option<Duration> + Send + Sync + 'a>;

/// How a worker does a kind of work. The default shares the worker's handlers with the other kinds, without a limit of time.
#[derive(Default)]
pub struct KindOptions<'a> {
    /// this many handlers for this kind alone; 0: it shares the worker's handlers with the other kinds. A kind with handlers of its own is a
    /// separate consumer, whose name ends in the name of the kind
    pub concurrency: usize,
    /// how long a handler may take. Then [`Chunk::check`] and [`Chunk::sleep`] return an error. A thread that ignores this cannot be stopped
    pub timeout: Option<Duration>,
    /// called with the text of a failed attempt, in place of the back-off of the submission or the queue: how long to wait before the next
    /// attempt, or `None` for no more attempts. [`Failure::Failed`] only: a handler that returns another failure has decided already
    pub retry: Option<Retry<'a>>,
}

struct Kind<'a> {
    options: KindOptions<'a>,
    handler: Box<dyn Fn(&Chunk) -> Result<Returned, Failure> + Send + Sync + 'a>,
}

impl Kind<'_> {
    fn run(&self, chunk: &Chunk) -> Result<Returned, Failure> {
        if let Some(time) = self.options.timeout {
            chunk.state().until = Some((Instant::now() + time, time));
        }
        let result = crate::panics::catch(|| (self.handler)(chunk)).unwrap_or_else(|text| Err(Failure::Failed(text)));
        match (&self.options.retry, result) {
            (Some(retry), Err(Failure::Failed(text))) => Err(match retry(chunk, &text) {
                Some(time) => Failure::RetryAfter(time, text),
                None => Failure::Permanent(text),
            }),
            (_, result) => result,
        }
    }
}

/// Handlers by kind, for [`Client::work_kinds`]. A submission has its kind in `meta.kind`.
#[derive(Default)]
pub struct Kinds<'a>(BTreeMap<String, Kind<'a>>);

impl<'a> Kinds<'a> {
    /// Adds the handler of a kind, or replaces it.
    pub fn handle<R: Into<Returned>>(self, kind: &str, handler: impl Fn(&Chunk) -> Result<R, Failure> + Send + Sync + 'a) -> Kinds<'a> {
        self.handle_with(kind, KindOptions::default(), handler)
    }

    /// [`Kinds::handle`] with handlers, a time or retries of the kind's own.
    pub fn handle_with<R: Into<Returned>>(
        mut self,
        kind: &str,
        options: KindOptions<'a>,
        handler: impl Fn(&Chunk) -> Result<R, Failure> + Send + Sync + 'a,
    ) -> Kinds<'a> {
        self.0.insert(kind.to_string(), Kind { options, handler: Box::new(move |chunk| handler(chunk).map(Into::into)) });
        self
    }

    fn run(&self, chunk: &Chunk) -> Result<Returned, Failure> {
        let name = chunk.json.get("meta").get(META_KIND).text();
        match self.0.get(name) {
            Some(kind) => kind.run(chunk),
            None => Err(Failure::Permanent(format!("no handler for the kind {name:?}"))), // the strategy selects no such chunk
        }
    }

    /// The options of the workers: one for all kinds that share handlers, and one for each of the others.
    fn plans(&self, mut options: WorkOptions) -> Result<Vec<WorkOptions>, Error> {
        if self.0.is_empty() || self.0.len() > MAX_KINDS {
            return Err(Error::Config(format!("a worker has 1 to {MAX_KINDS} kinds, and this one has {}", self.0.len())));
        }
        if let Some((name, _)) = self.0.iter().find(|(_, kind)| kind.options.timeout == Some(Duration::ZERO)) {
            return Err(Error::Config(format!("the timeout of the kind {name:?} is 0; give a longer one, or none")));
        }
        options.check()?;
        let hear = options.on_error.take().map(|hear| Arc::new(Mutex::new(hear)));
        let plan = |consumer: String, concurrency: usize, names: Vec<&String>| -> Result<WorkOptions, Error> {
            if consumer.len() > MAX_CONSUMER_BYTES {
                let text = format!("the consumer {consumer:?} has {} bytes, and the most is {MAX_CONSUMER_BYTES}", consumer.len());
                return Err(Error::Config(text + ": give the worker a shorter name"));
            }
            let strategy = select(&options.strategy, &names)?;
            let on_error = hear.clone().map(|hear| -> Box<dyn Fn(&Error) + Send> { Box::new(move |error| hear.lock().unwrap()(error)) });
            let (queue, context, stop) = (options.queue.clone(), options.context.clone(), options.stop.clone());
            Ok(WorkOptions { queue, strategy, consumer, context, concurrency, stop, on_error, ..options })
        };
        let (own, shared): (Vec<_>, Vec<_>) = self.0.iter().partition(|(_, kind)| kind.options.concurrency > 0);
        let mut plans = vec![];
        if !shared.is_empty() {
            plans.push(plan(options.consumer.clone(), options.concurrency, shared.iter().map(|(name, _)| *name).collect())?);
        }
        for (name, kind) in own {
            plans.push(plan(format!("{}-{name}", options.consumer), kind.options.concurrency, vec![name])?);
        }
        plans.iter_mut().try_for_each(WorkOptions::check)?;
        Ok(plans)
    }
}

/// A strategy for some kinds only.
fn select(strategy: &Json, names: &[&String]) -> Result<Json, Error> {
    let underlying = match strategy {
        Json::Null => Json::from("Random"),
        Json::Object(_) if *strategy.get("type") == Json::Null => {
            let text = "a strategy by name selects what it says: give the strategy itself beside kinds, or no kinds";
            return Err(Error::Config(text.to_string()));
        }
        given => given.clone(),
    };
    let values = names.iter().map(|name| Json::from(&***name)).collect::<Vec<_>>();
    Ok(Json::object([
        ("type", "select_any".into()),
        ("meta_field", META_KIND.into()),
        ("values", values.into()),
        ("underlying", underlying),
    ]))
}

/// Ends the other workers when one ends, also when it panics.
struct Together<'a>(&'a Stop);

impl Drop for Together<'_> {
    fn drop(&mut self) {
        self.0.stop();
    }
}

impl Client {
    /// [`Client::work`] for several kinds: it reserves the chunks whose `meta.kind` has a handler, and no others, in the order of
    /// `options.strategy`. That is in text form or a tree, not a name. When a worker of one kind ends by itself, all end.
    pub fn work_kinds(&self, options: WorkOptions, kinds: Kinds<'_>) -> Result<(), Error> {
        let plans = kinds.plans(options)?;
        let all = Stop::default();
        let work = |plan: WorkOptions| {
            let _together = Together(&all);
            self.work_beside(plan, &all, |chunk| kinds.run(chunk))
        };
        std::thread::scope(|threads| {
            let workers: Vec<_> = plans.into_iter().map(|plan| threads.spawn(|| work(plan))).collect();
            let ended = workers.into_iter().map(|worker| worker.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)));
            ended.fold(Ok(()), Result::and)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plans(strategy: Json, kinds: &Kinds) -> Result<Vec<WorkOptions>, Error> {
        kinds.plans(WorkOptions { strategy, consumer: "w".to_string(), concurrency: 3, ..WorkOptions::default() })
    }

    #[test]
    fn the_strategy_selects_the_kinds() {
        let kinds = Kinds::default().handle("resize", |_| Ok(())).handle("mail \"x\"", |_| Ok("sent".to_string()));
        let selects = |strategy: Json| plans(strategy, &kinds).map(|plans| plans[0].strategy.to_string());
        let head = r#"{"type":"select_any","meta_field":"kind","values":["mail \"x\"","resize"],"underlying":"#;
        assert_eq!(selects(Json::Null).unwrap(), format!("{head}\"Random\"}}"));
        assert_eq!(selects("OldestFirst".into()).unwrap(), format!("{head}\"OldestFirst\"}}"));
        let tree = Json::object([("type", "random".into())]);
        assert_eq!(selects(tree).unwrap(), format!("{head}{{\"type\":\"random\"}}}}"));
        assert!(selects(Json::object([("name", "nightly".into())])).is_err());
        assert!(plans(Json::Null, &Kinds::default()).is_err());
        let many = (0..65).fold(Kinds::default(), |kinds, n| kinds.handle(&n.to_string(), |_| Ok(())));
        assert!(plans(Json::Null, &many).is_err());
    }

    #[test]
    fn kinds_with_handlers_of_their_own_are_consumers() {
        let alone = || KindOptions { concurrency: 2, ..KindOptions::default() };
        let kinds = Kinds::default().handle("a", |_| Ok(())).handle_with("b", alone(), |_| Ok(())).handle("c", |_| Ok(()));
        let got = plans(Json::Null, &kinds).unwrap();
        let said: Vec<_> = got.iter().map(|plan| (&*plan.consumer, plan.concurrency, plan.strategy.get("values").to_string())).collect();
        assert_eq!(said, [("w", 3, r#"["a","c"]"#.to_string()), ("w-b", 2, r#"["b"]"#.to_string())]);
        assert!(plans(Json::Null, &Kinds::default().handle_with(&"x".repeat(200), alone(), |_| Ok(()))).is_err());
        let none = KindOptions { timeout: Some(Duration::ZERO), ..KindOptions::default() };
        assert!(plans(Json::Null, &Kinds::default().handle_with("d", none, |_| Ok(()))).is_err());
    }
}
