//! SIGTERM and SIGINT, which ask a worker to end in order.

/// The first signal calls `stop`. One second later, signals have their earlier effect again; so they do when the returned value is dropped.
#[cfg(unix)]
pub(crate) use unix::listen;

#[cfg(not(unix))]
pub(crate) fn listen(_: Box<dyn Fn() + Send>) {} // elsewhere a program stops its workers itself

#[cfg(unix)]
mod unix {
    use std::io::Read;
    use std::os::unix::io::AsRawFd;
    use std::os::unix::net::UnixStream;
    use std::sync::atomic::{AtomicI32, Ordering};
    use std::sync::Mutex;
    use std::time::Duration;

    // The standard library cannot handle signals. It is linked with the C library, and these two functions suffice.
    extern "C" {
        fn signal(number: i32, handler: usize) -> usize;
        fn write(file: i32, data: *const u8, size: usize) -> isize;
    }

    const SIGINT: i32 = 2;
    const SIGTERM: i32 = 15;
    const REPEAT: Duration = Duration::from_secs(1); // in which a second SIGTERM is the same one: timeout(1) sends two at once

    static WAKE: AtomicI32 = AtomicI32::new(-1); // file on which the handler writes
    static LISTENERS: Mutex<Listeners> = Mutex::new(Listeners { stops: Vec::new(), before: [0; 2] });

    struct Listeners {
        stops: Vec<(u64, Box<dyn Fn() + Send>)>,
        /// the actions of the signals before the first listener
        before: [usize; 2],
    }

    /// A signal handler may do little: it writes a byte, and a thread that reads it does the rest.
    extern "C" fn heard(_: i32) {
        let file = WAKE.load(Ordering::Relaxed);
        // SAFETY: write may be called in signal handlers; the byte lives longer than the call.
        unsafe { write(file, &1, 1) };
    }

    /// One worker's registration for signals.
    pub(crate) struct Listening(u64);

    pub(crate) fn listen(stop: Box<dyn Fn() + Send>) -> Option<Listening> {
        let mut listeners = LISTENERS.lock().unwrap();
        if WAKE.load(Ordering::Relaxed) < 0 {
            let (mut reader, writer) = UnixStream::pair().ok()?;
            std::thread::Builder::new().name("quern-signals".to_string()).spawn(move || wait(&mut reader)).ok()?;
            WAKE.store(writer.as_raw_fd(), Ordering::Relaxed);
            std::mem::forget(writer); // the handler may need it until the process ends
        }
        if listeners.stops.is_empty() {
            let handler = heard as extern "C" fn(i32) as *const () as usize;
            // SAFETY: the handler does only what a signal handler may do.
            listeners.before = [SIGINT, SIGTERM].map(|number| unsafe { signal(number, handler) });
        }
        let id = crate::random::number();
        listeners.stops.push((id, stop));
        Some(Listening(id))
    }

    fn wait(reader: &mut UnixStream) {
        while reader.read_exact(&mut [0]).is_ok() {
            LISTENERS.lock().unwrap().stops.iter().for_each(|(_, stop)| stop());
            std::thread::sleep(REPEAT);
            let listeners = LISTENERS.lock().unwrap();
            if !listeners.stops.is_empty() {
                set(listeners.before);
            }
        }
    }

    fn set(actions: [usize; 2]) {
        // SAFETY: an action is the system's, or one that signal returned.
        unsafe {
            signal(SIGINT, actions[0]);
            signal(SIGTERM, actions[1]);
        }
    }

    impl Drop for Listening {
        fn drop(&mut self) {
            let mut listeners = LISTENERS.lock().unwrap();
            listeners.stops.retain(|(id, _)| *id != self.0);
            if listeners.stops.is_empty() {
                set(listeners.before);
            }
        }
    }
}
