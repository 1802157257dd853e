//! The worker: threads that run handlers, and threads that carry out what the core decides.

use crate::address::escape;
use crate::call::{read_json, Caller};
use crate::chunk::{Chunk, Failure, Returned};
use crate::client::Client;
use crate::core::{may_pass, Core, Hands, News};
use crate::error::Error;
use crate::exchange::{Exchange, Poll};
use crate::http::Request;
use crate::json::Json;
use crate::queue::Queue;
use crate::scope::Scope;
use crate::{panics, random, signal, stream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

const MAX_HELD: usize = 100_000; // chunks that one worker holds: a bound on memory, and on what a crash loses
const DETACH: Duration = Duration::from_secs(2); // how long a worker that is done tries to detach
const HELLO: Duration = Duration::from_secs(10); // how long a worker waits for the first hello before it reserves
const DAY: Duration = Duration::from_secs(24 * 3600);

/// Options of a worker. The defaults suit most programs.
pub struct WorkOptions {
    /// the queue
    pub queue: String,
    /// text form, tree, or `{"name": ...}`; `Null` is Random
    pub strategy: Json,
    /// name of this consumer, which no other process uses; `""`: the host's name and a random text
    pub consumer: String,
    /// an object with facts for plugins and formulas; `Null` for none
    pub context: Json,
    /// handlers that run at once, each in a thread
    pub concurrency: usize,
    /// chunks reserved ahead; `None`: the worker measures how many it needs so that no handler waits
    pub prefetch: Option<usize>,
    /// until the deadline, which the worker extends while a handler runs
    pub timeout: Duration,
    /// how long the server waits for work in a call, at most a minute
    pub wait: Duration,
    /// how long handlers may continue after the worker begins to end; `None`: without limit
    pub grace: Option<Duration>,
    /// attach, so that the server notices when this process dies, and the worker when a chunk is revoked
    pub attach: bool,
    /// end in order at SIGTERM and SIGINT
    pub signals: bool,
    /// ends the worker from another thread
    pub stop: Stop,
    /// called with each problem after which the worker continues; `None`: it logs them to the standard error
    pub on_error: Option<Box<dyn Fn(&Error) + Send>>,
}

impl Default for WorkOptions {
    fn default() -> WorkOptions {
        WorkOptions {
            queue: "default".to_string(),
            strategy: Json::Null,
            consumer: String::new(),
            context: Json::Null,
            concurrency: 1,
            prefetch: None,
            timeout: Duration::from_secs(60),
            wait: Duration::from_secs(20),
            grace: None,
            attach: true,
            signals: true,
            stop: Stop::default(),
            on_error: None,
        }
    }
}

impl WorkOptions {
    pub(crate) fn check(&mut self) -> Result<(), Error> {
        let fault = if self.concurrency < 1 || self.concurrency.saturating_add(self.prefetch.unwrap_or(0)) > MAX_HELD {
            format!("concurrency is {}; it must be at least 1, and with prefetch at most {MAX_HELD}", self.concurrency)
        } else if self.timeout < Duration::from_millis(100) || self.timeout > DAY {
            format!("timeout is {:?}; it must be from 0.1 seconds to a day", self.timeout)
        } else if self.wait > Duration::from_secs(60) {
            format!("wait is {:?}; it must be at most a minute", self.wait)
        } else {
            if self.consumer.is_empty() {
                let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_else(|_| "consumer".to_string());
                self.consumer = format!("{:.100}-{}", host.trim(), &random::text()[..8]);
            }
            return Ok(());
        };
        Err(Error::Config(fault))
    }

    /// The fields of a reserve behind `max`.
    fn reserve(&self) -> String {
        let mut fields = format!("\"consumer\":{},\"timeout_ms\":{}", Json::from(&*self.consumer), self.timeout.as_millis());
        for (name, value) in [("strategy", &self.strategy), ("context", &self.context)] {
            if *value != Json::Null {
                fields += &format!(",\"{name}\":{value}");
            }
        }
        fields
    }
}

/// Ends workers in order: handlers finish, chunks that no handler has begun go back, results are reported. Clones end the same workers.
#[derive(Clone, Default)]
pub struct Stop(Arc<Mutex<Stops>>);

#[derive(Default)]
struct Stops {
    stopped: bool,
    inboxes: Vec<Arc<Queue<News>>>,
}

impl Stop {
    /// Ends the workers that have it among their options, also those that begin later. It does not wait for the end.
    pub fn stop(&self) {
        let mut state = self.0.lock().unwrap();
        state.stopped = true;
        state.inboxes.iter().for_each(|inbox| inbox.push(News::Stop));
    }

    fn tell(&self, inbox: &Arc<Queue<News>>) {
        let mut state = self.0.lock().unwrap();
        if state.stopped {
            inbox.push(News::Stop);
        }
        state.inboxes.push(inbox.clone());
    }

    fn forget(&self, inbox: &Arc<Queue<News>>) {
        self.0.lock().unwrap().inboxes.retain(|one| !Arc::ptr_eq(one, inbox));
    }
}

/// The state that the threads of one worker share.
struct Shared<'a> {
    caller: &'a Caller,
    /// path of the queue
    queue: String,
    /// name of the consumer
    consumer: String,
    timeout_ms: i64,
    wait: Duration,
    reserve: String,
    /// a worker that had to begin without a hello no longer sends its incarnation
    unheard: AtomicBool,
    hands: Hands,
    /// of calls and the stream
    scope: Arc<Scope>,
}

impl Client {
    /// Works until SIGTERM, SIGINT or [`Stop`], then ends in order. `handler` runs in `concurrency` threads at once. The worker waits for
    /// servers that are away. The result is an error if the worker ended by itself: after a refusal for good, such as an unknown queue, or
    /// because no server ever answered.
    ///
    /// ```no_run
    /// # fn main() -> Result<(), quern_client::Error> {
    /// let client = quern_client::Client::new("http://127.0.0.1:7700")?;
    /// client.work(Default::default(), |chunk| Ok(chunk.text()?.to_uppercase()))
    /// # }
    /// ```
    pub fn work<R: Into<Returned>>(
        &self,
        options: WorkOptions,
        handler: impl Fn(&Chunk) -> Result<R, Failure> + Sync,
    ) -> Result<(), Error> {
        self.work_beside(options, &Stop::default(), handler)
    }

    /// [`Client::work`] beside other workers: `all` ends it, too.
    pub(crate) fn work_beside<R: Into<Returned>>(
        &self,
        mut options: WorkOptions,
        all: &Stop,
        handler: impl Fn(&Chunk) -> Result<R, Failure> + Sync,
    ) -> Result<(), Error> {
        options.check()?;
        let shared = Shared {
            caller: &self.caller,
            queue: format!("/v1/queues/{}", escape(&options.queue)?),
            consumer: options.consumer.clone(),
            timeout_ms: options.timeout.as_millis() as i64,
            wait: options.wait,
            reserve: options.reserve(),
            unheard: AtomicBool::new(false),
            hands: Hands::default(),
            scope: Arc::default(),
        };
        options.stop.tell(&shared.hands.inbox);
        all.tell(&shared.hands.inbox);
        let stop = options.stop.clone();
        let _listening = options.signals.then(|| signal::listen(Box::new(move || stop.stop())));
        let result = std::thread::scope(|threads| {
            let _end = End(&shared); // also when a thread cannot be started
            for _ in 0..options.concurrency {
                threads.spawn(|| shared.handle(&handler));
            }
            threads.spawn(|| shared.make_calls());
            threads.spawn(|| shared.make_polls());
            if options.attach {
                let path = format!("{}/consumers/{}/attach", shared.queue, escape(&options.consumer)?);
                let shared = &shared;
                threads.spawn(move || stream::attach(shared.caller, &shared.scope, &shared.hands.inbox, || shared.incarnation(&path)));
            }
            shared.decide(&mut options)
        });
        options.stop.forget(&shared.hands.inbox);
        all.forget(&shared.hands.inbox);
        result
    }
}

/// Ends the threads of a worker.
struct End<'a>(&'a Shared<'a>);

impl Drop for End<'_> {
    fn drop(&mut self) {
        self.0.scope.end();
        self.0.hands.polling.end();
        self.0.hands.ready.close();
        self.0.hands.calls.close();
        self.0.hands.polls.close();
    }
}

impl Shared<'_> {
    /// Takes what happened, and starts what has become possible, until all is settled.
    fn decide(&self, options: &mut WorkOptions) -> Result<(), Error> {
        let about = format!("the worker {} of the queue {}", options.consumer, options.queue);
        let (on_error, notices) = (options.on_error.take(), &self.caller.notices);
        let report = |error: Error| match &on_error {
            Some(hear) => hear(&error),
            None => notices.warn(&about, &error),
        };
        let mut core = Core::new(options.concurrency, options.prefetch, options.attach, self.hands.clone());
        let quarter = options.timeout / 4;
        let hello = Instant::now() + HELLO;
        let mut tick = Instant::now() + quarter;
        let mut end: Option<Instant> = None; // of the grace period
        loop {
            core.start();
            core.told.drain(..).for_each(report);
            if core.over {
                break;
            }
            let moments = [Some(tick), end, core.due, Some(hello).filter(|_| core.awaited)];
            for news in self.hands.inbox.all(moments.into_iter().flatten().min().unwrap_or(tick)) {
                if let (News::Stop, None) = (&news, end) {
                    end = options.grace.map(|grace| Instant::now() + grace);
                }
                core.take(news);
            }
            let now = Instant::now();
            if core.awaited && now >= hello {
                core.awaited = false;
                self.unheard.store(true, Ordering::Relaxed);
            }
            if core.due.map_or(false, |due| now >= due) {
                core.send_progress();
            }
            if now >= tick {
                core.tick();
                tick = now + quarter;
            }
            if end.map_or(false, |end| now >= end) {
                core.grace_over();
                end = None;
            }
        }
        if options.attach && !core.unknown {
            self.detach();
        }
        core.outcome()
    }

    /// One handler's thread.
    fn handle<R: Into<Returned>>(&self, handler: &(impl Fn(&Chunk) -> Result<R, Failure> + Sync)) {
        while let Some(chunk) = self.hands.ready.next() {
            let lost = chunk.state().lost; // not in the match, which would keep the state locked while the handler runs
            let result = match lost {
                true => Err(Failure::Cancelled),
                false => panics::catch(|| handler(&chunk)).unwrap_or_else(|text| Err(Failure::Failed(text))),
            };
            self.hands.inbox.push(News::Finished(chunk, result.map(Into::into)));
        }
    }

    fn make_calls(&self) {
        while let Some(mut call) = self.hands.calls.next() {
            let result = self.exchange(&mut call);
            self.rest(&self.scope, call.failures, &result);
            self.hands.inbox.push(News::Called(call, result));
        }
    }

    fn make_polls(&self) {
        while let Some(poll) = self.hands.polls.next() {
            let result = self.poll(&poll);
            self.rest(&self.hands.polling, poll.failures, &result);
            self.hands.inbox.push(News::Polled(poll, result));
        }
    }

    /// The pause after a call that failed in all its attempts. There is none after a refusal for good.
    fn rest(&self, scope: &Arc<Scope>, failures: u32, result: &Result<Json, Error>) {
        if let Err(error) = result {
            if may_pass(error) {
                scope.pause(self.caller.backoff(failures + 3, Some(error)));
            }
        }
    }

    fn exchange(&self, call: &mut Exchange) -> Result<Json, Error> {
        let request = |what, body| Request::json(what, format!("{}/reservations/{what}", self.queue), body);
        if !call.releases.is_empty() {
            self.caller.call(&request("release", call.release_body()), &self.scope)?;
            call.releases.clear(); // the results do not matter: a chunk that is not ours any more need not go back
        }
        let body = call.body(self.timeout_ms, &self.consumer, &self.reserve);
        if body.is_empty() {
            return Ok(Json::Null);
        }
        call.began = Instant::now();
        let answer = self.caller.call(&request("exchange", body), &self.scope)?;
        call.size = answer.len();
        let answer = read_json("exchange", &answer)?;
        for (what, n) in [("complete", call.count(false)), ("fail", call.count(true)), ("extend", call.extends.len())] {
            if answer.get(what).items().len() != n {
                return Err(Error::BadAnswer(format!("exchange: the answer does not have {n} results of {what}")));
            }
        }
        Ok(answer)
    }

    /// Waits for work. An answer without any is followed by a pause, so that a server that does not wait is not asked in a tight loop.
    fn poll(&self, poll: &Poll) -> Result<Json, Error> {
        let body = format!("{{\"max\":{},\"wait_ms\":{},{}}}", poll.room, self.wait.as_millis(), self.reserve);
        let mut request = Request::json("reserve", format!("{}/reservations", self.queue), body);
        request.wait = self.wait;
        let answer = self.caller.fetch(&request, &self.hands.polling)?;
        if answer.get("reservations").items().is_empty() {
            let asked = answer.get("retry_after_ms").int().unwrap_or(0).clamp(0, 1000) as u64;
            self.hands.polling.pause(Duration::from_millis(asked + random::below(100)));
        }
        Ok(answer)
    }

    /// The path of the stream. Its incarnation tells this process from others that work under the same name.
    fn incarnation(&self, path: &str) -> String {
        static DRAWN: Mutex<String> = Mutex::new(String::new());
        if self.unheard.load(Ordering::Relaxed) {
            return path.to_string();
        }
        let mut drawn = DRAWN.lock().unwrap();
        if drawn.is_empty() {
            *drawn = random::text();
        }
        format!("{path}?incarnation={drawn}-{}", std::process::id())
    }

    /// Tells the server that we leave. If that fails, the server notices the lost stream, and we hold nothing by then.
    fn detach(&self) {
        if let Ok(consumer) = escape(&self.consumer) {
            let mut request = Request::json("detach", format!("{}/consumers/{consumer}/detach", self.queue), String::new());
            request.safe = false; // no second try
            request.patience = Some(DETACH);
            let _ = self.caller.call(&request, &self.scope);
        }
    }
}
