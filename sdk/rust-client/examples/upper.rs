use quern_client::{Client, NewSubmission, Stop, WorkOptions};

fn main() -> Result<(), quern_client::Error> {
    let address = std::env::args().nth(1).unwrap_or_else(|| "http://127.0.0.1:7700".to_string());
    let client = Client::new(&address)?;
    let stop = Stop::default();
    let options = WorkOptions { concurrency: 8, stop: stop.clone(), ..WorkOptions::default() };
    let submission = client.insert("default", &NewSubmission::inline(["ash", "beech", "cedar"]).meta("company", 123))?;
    std::thread::scope(|threads| {
        let worker = threads.spawn(|| client.work(options, |chunk| Ok(chunk.text()?.to_uppercase())));
        let ended = client.wait(&submission.id, None);
        stop.stop();
        worker.join().unwrap()?;
        println!("{}", ended?.state); // completed, unless it failed, expired or was cancelled
        for output in client.outputs(&submission.id)? {
            let output = output?;
            println!("{} {}", output.index, String::from_utf8_lossy(&output.data));
        }
        Ok(())
    })
}
