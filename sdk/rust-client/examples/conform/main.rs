//! The program with which sdk/conformance tests the Rust client: conform OPTIONS.

mod crash;

use quern_client::{Chunk, Client, ClientOptions, Error, Failure, Json, NewSubmission, Returned, WorkOptions};
use std::collections::HashSet;
use std::io::Write;
use std::path::Path;
use std::sync::Mutex;
use std::time::Duration;

fn main() {
    let argument = std::env::args().nth(1).unwrap_or_default();
    let options = Json::parse(argument.as_bytes()).expect("the argument is JSON");
    if let Err(error) = run(&options) {
        match error.refused() {
            Some(refused) => say(&format!("error {} {}", refused.status, refused.code)),
            None => say(&format!("error {error}")),
        }
        std::process::exit(1);
    }
}

/// Writes one line at once, even when several handlers write.
fn say(line: &str) {
    let mut out = std::io::stdout().lock();
    writeln!(out, "{line}").and_then(|()| out.flush()).expect("the suite reads what it is told");
}

fn run(options: &Json) -> Result<(), Error> {
    let number = |name| options.get(name).int().unwrap_or(0) as u64;
    let client = Client::with(ClientOptions {
        addresses: options.get("addresses").items().iter().map(|address| address.text().to_string()).collect(),
        token: options.get("token").text().to_string(),
        direct: *options.get("direct") == Json::Bool(true),
        ..ClientOptions::default()
    })?;
    let contents = options.get("chunks").items().iter().map(Json::text).collect::<Vec<_>>();
    match options.get("role").text() {
        "work" => {}
        "many" => return insert_many(&client, &contents),
        "stream" => return follow(&client, &client.insert_stream("default", &NewSubmission::streamed(), contents)?.id),
        _ => return follow(&client, &client.insert("default", &NewSubmission::inline(contents))?.id),
    }
    let mut work = WorkOptions {
        consumer: options.get("consumer").text().to_string(),
        concurrency: number("concurrency") as usize,
        prefetch: Some(number("prefetch") as usize),
        timeout: Duration::from_millis(number("timeout_ms")),
        wait: Duration::from_millis(number("wait_ms")),
        ..WorkOptions::default()
    };
    if *options.get("log") != Json::Bool(true) {
        work.on_error = Some(Box::new(|error| match error {
            Error::ReservationLost { index, .. } => say(&format!("lost {index}")),
            Error::HandlerFailed { .. } => {}
            _ => eprintln!("{error}"),
        }));
    }
    let snoozed = Mutex::new(HashSet::new());
    client.work(work, |chunk| {
        say(&format!("begin {}", chunk.index));
        let _end = End(chunk.index);
        let result = act(chunk, &snoozed);
        if let Err(Failure::Cancelled) = result {
            say(&format!("cancelled {}", chunk.index));
        }
        result
    })
}

/// Says that a handler ended, also when it panics.
struct End(u32);

impl Drop for End {
    fn drop(&mut self) {
        say(&format!("end {}", self.0));
    }
}

fn act(chunk: &Chunk, snoozed: &Mutex<HashSet<u32>>) -> Result<Returned, Failure> {
    let text = chunk.text()?;
    let (verb, rest) = text.split_once(' ').unwrap_or((text, ""));
    let (first, last) = rest.split_once(' ').unwrap_or((rest, ""));
    match verb {
        "echo" => return Ok(rest.to_string().into()),
        "bytes" => {
            let byte = |i| u8::from_str_radix(&rest[i..i + 2], 16);
            return Ok((0..rest.len()).step_by(2).map(byte).collect::<Result<Vec<_>, _>>()?.into());
        }
        "size" => return Ok("x".repeat(first.parse()?).into()),
        "wait" => await_file(chunk, first)?,
        "progress" => {
            for turn in 1..200 {
                chunk.sleep(Duration::from_millis(2))?;
                chunk.progress(f64::from(turn) / 400.0, &format!("turn {turn}"));
            }
            chunk.progress(0.5, last);
            await_file(chunk, first)?;
        }
        "fatal" => return Err(Failure::permanent(rest)),
        // The attempt is the same the second time.
        "snooze" if snoozed.lock().unwrap().insert(chunk.index) => return Err(Failure::Snooze(Duration::from_millis(rest.parse()?))),
        "fail" if chunk.attempt == 1 => return Err(Failure::failed(rest)),
        "retry" if chunk.attempt == 1 => return Err(Failure::RetryAfter(Duration::from_millis(first.parse()?), last.to_string())),
        "crash" if chunk.attempt == 1 => crash::crash(rest),
        _ => {}
    }
    Ok(().into())
}

fn await_file(chunk: &Chunk, path: &str) -> Result<(), Failure> {
    while !Path::new(path).exists() {
        chunk.sleep(Duration::from_millis(10))?;
    }
    Ok(())
}

fn follow(client: &Client, id: &str) -> Result<(), Error> {
    say(&format!("inserted {id}"));
    say(&format!("ended {}", client.wait(id, None)?.state));
    for output in client.outputs(id)? {
        let output = output?;
        let hex = output.data.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
        say(&format!("output {} {hex}", output.index));
    }
    Ok(())
}

fn insert_many(client: &Client, contents: &[&str]) -> Result<(), Error> {
    let list = contents.iter().map(|content| NewSubmission::inline([content])).collect::<Vec<_>>();
    for result in client.insert_many("default", &list)? {
        match result {
            Ok(submission) => say(&format!("inserted {}", submission.id)),
            Err(Error::Refused(refused)) => {
                say(&format!("refused {} {}", refused.code, refused.problems.first().map_or("", |(pointer, _)| pointer)));
            }
            Err(error) => return Err(error),
        }
    }
    Ok(())
}
