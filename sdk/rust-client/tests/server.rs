//! The client against a real server: QUERN_BINARY says which, bin/quern of the repository unless told.

use quern_client::{Chunk, Client, Error, Failure, Json, KindOptions, Kinds, NewSubmission, Stop, WorkOptions};
use std::collections::HashMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Mutex, MutexGuard};
use std::time::Duration;

/// Ports that tests of this process have.
fn taken() -> MutexGuard<'static, Vec<String>> {
    static TAKEN: Mutex<Vec<String>> = Mutex::new(Vec::new());
    TAKEN.lock().unwrap()
}

/// A real server on data of its own.
struct Server {
    data: PathBuf,
    listen: String,
    process: Child,
}

impl Server {
    fn start(name: &str) -> Server {
        let data = std::env::temp_dir().join(format!("quern-rust-{}-{name}", std::process::id()));
        let _ = std::fs::remove_dir_all(&data); // of a process that had this number before
                                                // A port for a server that starts several times, below those that the kernel gives to others.
        let first = 20_000 + std::process::id() % 9_000;
        let mut taken = taken();
        let mut free = (first..).map(|port| format!("127.0.0.1:{port}")).filter(|listen| TcpListener::bind(listen).is_ok());
        let listen = free.find(|listen| !taken.contains(listen)).unwrap();
        taken.push(listen.clone());
        drop(taken);
        let process = Server::run(&data, &listen);
        Server { data, listen, process }
    }

    fn run(data: &Path, listen: &str) -> Child {
        let binary = std::env::var("QUERN_BINARY").unwrap_or_else(|_| concat!(env!("CARGO_MANIFEST_DIR"), "/../../bin/quern").to_string());
        let mut command = Command::new(&binary);
        command.args(["serve", "--listen", listen, "--data"]).arg(data).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut process = command.spawn().unwrap_or_else(|fault| panic!("{binary}: {fault}; `make build` makes it"));
        let mut lines = BufReader::new(process.stdout.take().unwrap()).lines();
        assert!(lines.any(|line| line.unwrap().contains("serving")), "the server did not start");
        std::thread::spawn(move || lines.for_each(drop)); // it must not wait for a reader
        process
    }

    fn kill(&mut self) {
        self.process.kill().unwrap();
        self.process.wait().unwrap();
    }

    fn client(&self) -> Client {
        Client::new(&format!("http://{}", self.listen)).unwrap()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.kill();
        let _ = std::fs::remove_dir_all(&self.data); // a directory that stays is no fault of the client
    }
}

fn options(stop: &Stop, concurrency: usize) -> WorkOptions {
    WorkOptions { concurrency, stop: stop.clone(), signals: false, ..WorkOptions::default() }
}

/// Work is inserted, done, waited for, and its outputs come back as they were.
#[test]
fn a_producer_and_a_consumer() {
    let server = Server::start("whole");
    let client = server.client();
    let new = NewSubmission::inline([&b"a"[..], b"\xff\x00", "é\u{2028}".as_bytes()]).meta("company", 7).field("priority", 3);
    let submission = client.insert("default", &new.field("unique", Json::object([("key", "k".into())]))).unwrap();
    assert!(!submission.existing);
    let stop = Stop::default();
    let ended = std::thread::scope(|threads| {
        let strategy = Json::from(r#"SelectOnly("company", 7, OldestFirst)"#);
        threads.spawn(|| {
            let work = client.work(WorkOptions { strategy, ..options(&stop, 2) }, |chunk| {
                assert_eq!((chunk.meta("company"), chunk.attempt), (&Json::Int(7), 1));
                Ok([&chunk.content[..], &chunk.content].concat())
            });
            work.unwrap()
        });
        let ended = client.wait(&submission.id, Some(Duration::from_secs(60)));
        stop.stop();
        ended.unwrap()
    });
    assert_eq!(ended.state, "completed");
    let outputs = client.outputs(&submission.id).unwrap().map(|output| output.unwrap().data).collect::<Vec<_>>();
    assert_eq!(outputs, [&b"aa"[..], b"\xff\x00\xff\x00", "é\u{2028}é\u{2028}".as_bytes()]);
}

/// A server that is killed with -9 and started again: every chunk is done, with the right output.
#[test]
fn a_server_that_is_killed() {
    let mut server = Server::start("killed");
    let client = server.client();
    let n = 3000;
    let submission = client.insert("default", &NewSubmission::template(n, "row {index}")).unwrap();
    let stop = Stop::default();
    let seen = Mutex::new(HashMap::new());
    std::thread::scope(|threads| {
        threads.spawn(|| {
            let work = client.work(WorkOptions { on_error: Some(Box::new(|_| ())), ..options(&stop, 16) }, |chunk| {
                *seen.lock().unwrap().entry(chunk.index).or_insert(0) += 1;
                chunk.sleep(Duration::from_millis(1))?;
                Ok(chunk.text()?.to_uppercase())
            });
            work.unwrap()
        });
        for _ in 0..2 {
            std::thread::sleep(Duration::from_millis(150));
            server.kill();
            server.process = Server::run(&server.data, &server.listen);
        }
        let ended = client.wait(&submission.id, Some(Duration::from_secs(120)));
        stop.stop();
        assert_eq!(ended.unwrap().state, "completed");
    });
    let outputs = client.outputs(&submission.id).unwrap().map(|output| String::from_utf8(output.unwrap().data).unwrap());
    assert!(outputs.eq((0..n).map(|i| format!("ROW {i}"))));
    assert_eq!(seen.lock().unwrap().len(), n as usize);
}

/// A submission that a handler inserts with `then` exists when its chunk is done; a failure for good, a snooze and a panic have their
/// effects.
#[test]
fn what_handlers_return() {
    let server = Server::start("handlers");
    let client = server.client();
    let first = NewSubmission::inline(["then", "fatal", "snooze", "panic"])
        .field("retry_backoff", Json::parse(br#"{"kind":"list","delays_ms":[1]}"#).unwrap());
    let first = client.insert("default", &first.field("on_exhausted", "dead_letter")).unwrap();
    let stop = Stop::default();
    let said = Mutex::new(vec![]);
    std::thread::scope(|threads| {
        threads.spawn(|| {
            let on_error = |error: &Error| println!("{error}");
            let work = client.work(WorkOptions { on_error: Some(Box::new(on_error)), ..options(&stop, 1) }, |chunk| {
                let before = said.lock().unwrap().iter().filter(|text| **text == chunk.content).count();
                said.lock().unwrap().push(chunk.content.clone());
                match chunk.text()? {
                    "then" => chunk.then(&NewSubmission::inline(["last"])),
                    "fatal" => return Err(Failure::permanent("never")),
                    "snooze" if before == 0 => return Err(Failure::Snooze(Duration::from_millis(50))),
                    "panic" if chunk.attempt == 1 => panic!("a bug"),
                    _ => {}
                }
                Ok(())
            });
            work.unwrap()
        });
        let ended = client.wait(&first.id, Some(Duration::from_secs(60)));
        while said.lock().unwrap().iter().all(|text| text != b"last") {
            std::thread::sleep(Duration::from_millis(10));
        }
        stop.stop();
        assert_eq!(ended.unwrap().state, "completed_with_dead");
    });
    let dead = client.call("GET", &format!("/v1/submissions/{}/chunks/1", first.id), None).unwrap();
    assert_eq!((dead.get("state").text(), dead.get("error").text()), ("dead", "never"));
}

/// Inserts of many and of a stream, and refusals with status, code and pointer.
#[test]
fn other_inserts_and_refusals() {
    let server = Server::start("inserts");
    let client = server.client();
    let list =
        [NewSubmission::inline(["a"]), NewSubmission::inline(["b"]).field("priority", "high"), NewSubmission::inline(["c"]).key("one")];
    let results = client.insert_many("default", &list).unwrap();
    assert!(results[0].is_ok() && results[2].is_ok());
    assert_eq!(results[1].as_ref().unwrap_err().refused().unwrap().problems[0].0, "/priority");
    let again = client.insert("default", &list[2]).unwrap();
    assert_eq!(again.id, results[2].as_ref().unwrap().id);
    let streamed =
        client.insert_stream("default", &NewSubmission::streamed().meta("company", 1), (0..50_000).map(|i| format!("row {i}"))).unwrap();
    assert_eq!(streamed.json.get("chunks"), &Json::Int(50_000));
    assert_eq!(client.insert("nothing", &list[0]).unwrap_err().code(), "unknown_queue");
    let work = client.work(WorkOptions { strategy: "Wrong".into(), ..options(&Stop::default(), 1) }, |_| Ok(()));
    assert_eq!(work.unwrap_err().refused().map(|refused| refused.status), Some(422));
    let still = client.wait(&streamed.id, Some(Duration::ZERO)).unwrap_err();
    assert!(matches!(still, Error::StillOpen(_)), "{still}");
}

/// The program of the README does what it says.
#[test]
fn the_program_of_the_readme() {
    let readme = include_str!("../README.md");
    assert!(readme.contains(concat!("```rust\n", include_str!("../examples/upper.rs"), "```\n")), "the README shows another program");
    let server = Server::start("readme");
    let program = std::env::current_exe().unwrap().ancestors().nth(2).unwrap().join("examples/upper");
    let done = Command::new(program).arg(format!("http://{}", server.listen)).output().unwrap();
    assert_eq!(String::from_utf8_lossy(&done.stdout), "completed\n0 ASH\n1 BEECH\n2 CEDAR\n", "{}", String::from_utf8_lossy(&done.stderr));
}

/// The first SIGTERM waits for the handler, the second ends the process.
#[cfg(unix)]
#[test]
fn a_second_signal_ends_the_process() {
    use std::os::unix::process::ExitStatusExt;
    let server = Server::start("signals");
    let client = server.client();
    client.insert("default", &NewSubmission::inline(["wait /no/such/file"])).unwrap();
    let options = format!(
        r#"{{"role":"work","addresses":["http://{}"],"consumer":"c","concurrency":1,"timeout_ms":60000,"wait_ms":1000}}"#,
        server.listen
    );
    let program = std::env::current_exe().unwrap().ancestors().nth(2).unwrap().join("examples/conform");
    let mut working = Command::new(program).arg(options).stdout(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(working.stdout.take().unwrap()).lines();
    assert_eq!(lines.next().unwrap().unwrap(), "begin 0");
    let terminate = || assert!(Command::new("kill").arg(working.id().to_string()).status().unwrap().success());
    terminate();
    terminate(); // timeout(1) sends two at once
    std::thread::sleep(Duration::from_millis(1500));
    terminate();
    assert_eq!((lines.count(), working.wait().unwrap().signal()), (0, Some(15)));
}

/// One worker has a handler for each kind, and takes no others.
#[test]
fn kinds_have_handlers_of_their_own() {
    let server = Server::start("kinds");
    let client = server.client();
    let insert = |kind: &str| client.insert("default", &NewSubmission::inline(["a"]).meta("kind", kind)).unwrap().id;
    let (upper, lower, other) = (insert("upper"), insert("lower"), insert("other"));
    let stop = Stop::default();
    let kinds = Kinds::default()
        .handle("upper", |chunk| Ok(format!("upper {}", chunk.text()?)))
        .handle("lower", |chunk| Ok(format!("lower {}", chunk.text()?)));
    std::thread::scope(|threads| {
        let worker = threads.spawn(|| client.work_kinds(options(&stop, 2), kinds));
        for (id, want) in [(&upper, "upper a"), (&lower, "lower a")] {
            assert_eq!(client.wait(id, Some(Duration::from_secs(20))).unwrap().state, "completed");
            let output = client.outputs(id).unwrap().next().unwrap().unwrap();
            assert_eq!(String::from_utf8_lossy(&output.data), want);
        }
        stop.stop();
        worker.join().unwrap().unwrap();
    });
    assert!(matches!(client.wait(&other, Some(Duration::ZERO)), Err(Error::StillOpen(_))));
}

/// Stops workers when a test ends.
struct Ends<'a>(&'a Stop);

impl Drop for Ends<'_> {
    fn drop(&mut self) {
        self.0.stop();
    }
}

/// A kind has handlers, a time and retries of its own: its handlers are free while those of the others are busy, a handler that takes too
/// long fails, and the kind says when a failed attempt is made again, also after a panic. All workers end together.
#[test]
fn kinds_have_options_of_their_own() {
    let server = Server::start("kind-options");
    let client = server.client();
    let insert = |kind: &str| client.insert("default", &NewSubmission::inline(["a"]).meta("kind", kind)).unwrap().id;
    let slow = insert("slow");
    let (stop, (release, released), asked) = (Stop::default(), std::sync::mpsc::channel::<()>(), Mutex::new(vec![]));
    let released = Mutex::new(released);
    let soon = |chunk: &Chunk, text: &str| {
        asked.lock().unwrap().push((chunk.attempt, text.lines().next().unwrap().to_string()));
        Some(Duration::from_millis(1)).filter(|_| chunk.attempt < 2)
    };
    let kinds = Kinds::default()
        .handle("slow", |_| {
            released.lock().unwrap().recv()?;
            Ok(())
        })
        .handle_with("quick", KindOptions { concurrency: 1, ..KindOptions::default() }, |_| Ok(()))
        .handle_with(
            "late",
            KindOptions { concurrency: 1, timeout: Some(Duration::from_millis(50)), retry: Some(Box::new(soon)) },
            |chunk| {
                if chunk.attempt == 1 {
                    panic!("no {}", chunk.attempt);
                }
                chunk.sleep(Duration::from_secs(3600))
            },
        );
    std::thread::scope(|threads| {
        let (_ends, release) = (Ends(&stop), release); // also when the test fails
        let worker = threads.spawn(|| client.work_kinds(options(&stop, 1), kinds));
        assert_eq!(client.wait(&insert("quick"), Some(Duration::from_secs(20))).unwrap().state, "completed");
        assert_eq!(client.wait(&insert("late"), Some(Duration::from_secs(20))).unwrap().state, "completed_with_dead");
        assert!(matches!(client.wait(&slow, Some(Duration::ZERO)), Err(Error::StillOpen(_))));
        release.send(()).unwrap();
        assert_eq!(client.wait(&slow, Some(Duration::from_secs(20))).unwrap().state, "completed");
        stop.stop();
        worker.join().unwrap().unwrap();
    });
    let text = "the handler took too long (more than 50ms)".to_string();
    assert_eq!(*asked.lock().unwrap(), [(1, "panic: no 1".to_string()), (2, text)]);
}

/// When the worker of one kind ends because of an error, the others end, too, and the error is the result.
#[test]
fn workers_of_kinds_end_together() {
    let server = Server::start("kinds-end");
    let alone = || KindOptions { concurrency: 1, ..KindOptions::default() };
    let kinds = Kinds::default().handle("a", |_| Ok(())).handle_with("b", alone(), |_| Ok(()));
    let refused = server.client().work_kinds(WorkOptions { queue: "none".to_string(), ..options(&Stop::default(), 1) }, kinds);
    assert!(matches!(refused, Err(Error::Refused(_))), "{refused:?}");
}

/// Inserts that overlap share calls, and each gets its own result, even a refused one, and one with a known key.
#[test]
fn inserts_share_calls() {
    let server = Server::start("shared");
    let client = server.client();
    std::thread::scope(|threads| {
        for thread in 0..32 {
            let client = &client;
            threads.spawn(move || {
                for n in 0..20 {
                    let text = format!("{thread} {n}");
                    let new = NewSubmission::inline([&text]).meta("text", &*text).key(&text.replace(' ', "-"));
                    let got = client.insert("default", &new).unwrap();
                    assert_eq!(got.json.get("meta").get("text").text(), text);
                    assert_eq!(client.insert("default", &new).unwrap().id, got.id);
                    let refused =
                        client.insert("default", &new.clone().key(&format!("bad {text}").replace(' ', "-")).field("priority", "x"));
                    match refused {
                        Err(Error::Refused(refused)) => assert!(refused.status == 422 && !refused.request_id.is_empty(), "{refused:?}"),
                        other => panic!("{other:?}"),
                    }
                }
            });
        }
    });
    let stats = client.call("GET", "/v1/queues/default/stats", None).unwrap();
    assert_eq!(stats.get("submissions_open").int(), Some(32 * 20));
}

/// Answers the calls of one connection. An insert of one takes a while.
fn answer_inserts(stream: TcpStream, calls: &Mutex<Vec<usize>>) {
    let mut reader = BufReader::new(stream);
    loop {
        let (mut batch, mut length) = (false, 0);
        loop {
            let mut line = String::new();
            if reader.read_line(&mut line).unwrap() == 0 {
                return;
            }
            batch |= line.contains(":batch ");
            if let Some(n) = line.to_lowercase().strip_prefix("content-length:") {
                length = n.trim().parse().unwrap();
            }
            if line == "\r\n" {
                break;
            }
        }
        let mut body = vec![0; length];
        reader.read_exact(&mut body).unwrap();
        let n = String::from_utf8(body).unwrap().matches("idempotency_key").count();
        let one = r#"{"id":"7","state":"open"}"#;
        let answer = match batch {
            true => format!("{{\"results\":[{}]}}", vec![format!("{{\"submission\":{one}}}"); n].join(",")),
            false => one.to_string(),
        };
        calls.lock().unwrap().push(n);
        if !batch {
            std::thread::sleep(Duration::from_secs(1));
        }
        let head = format!("HTTP/1.1 201 Created\r\nContent-Length: {}\r\n\r\n", answer.len());
        reader.get_mut().write_all((head + &answer).as_bytes()).unwrap();
    }
}

/// All inserts that begin during a call go together in the next one.
#[test]
fn inserts_that_wait_are_one_call() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let client = Client::new(&format!("http://{}", listener.local_addr().unwrap())).unwrap();
    let calls: &'static Mutex<Vec<usize>> = Box::leak(Box::default());
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            std::thread::spawn(move || answer_inserts(stream.unwrap(), calls));
        }
    });
    std::thread::scope(|threads| {
        let insert = || assert_eq!(client.insert("default", &NewSubmission::inline(["a"])).unwrap().id, "7");
        threads.spawn(insert);
        while calls.lock().unwrap().is_empty() {
            std::thread::sleep(Duration::from_millis(1));
        }
        for _ in 0..10 {
            threads.spawn(insert);
        }
    });
    assert_eq!(*calls.lock().unwrap(), [0, 10]);
}

/// Each submission comes once, as it ends; an unknown one is an error of its own.
#[test]
fn many_submissions_are_waited_for() {
    let server = Server::start("wait-many");
    let client = server.client();
    let ids: Vec<String> = (0..5).map(|_| client.insert("default", &NewSubmission::inline(["a"])).unwrap().id).collect();
    let end = |id: &String| client.call("POST", &format!("/v1/submissions/{id}/cancel"), None).unwrap();
    std::thread::scope(|threads| {
        threads.spawn(|| {
            for id in &ids {
                std::thread::sleep(Duration::from_millis(50));
                end(id);
            }
        });
        let asked = ids.iter().cloned().chain([ids[0].clone(), "72057594037927999".to_string()]);
        let mut unknown = 0;
        let mut ended = vec![];
        for one in client.wait_many(asked) {
            match one {
                Ok(submission) => {
                    assert_eq!(submission.state, "cancelled");
                    ended.push(submission.id);
                }
                Err(error) => {
                    assert_eq!(error.code(), "unknown_submission");
                    unknown += 1;
                }
            }
        }
        ended.sort();
        let mut want = ids.clone();
        want.sort();
        assert_eq!((ended, unknown), (want, 1));
    });
    assert!(client.wait_many(Vec::<String>::new()).next().is_none());
    assert!(matches!(client.wait_many(["no id"]).next(), Some(Err(Error::Refused(_)))));
}
