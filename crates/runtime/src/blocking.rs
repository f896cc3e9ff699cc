//! Threads for calls that can only block: opening and renaming files, connecting, foreign libraries; and all file I/O
//! where io_uring is refused. At most `THREADS_MAX`; started on demand, ended after a while without work.
//!
//! The queue is bounded by the fibers: each waits for what it has submitted.

use crate::fiber;
use crate::wait::WaitEvent;
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

const THREADS_MAX: usize = 8;
const IDLE_MAX: Duration = Duration::from_secs(10);

pub(crate) type Task = Box<dyn FnOnce() + Send>;

/// The pool of one runtime.
#[derive(Default)]
pub(crate) struct BlockingPool {
    queue: parking_lot::Mutex<Queue>,
    more: parking_lot::Condvar,
}

#[derive(Default)]
struct Queue {
    tasks: VecDeque<Task>,
    idle: usize,
    threads: usize,
    stopping: bool,
}

impl BlockingPool {
    /// Queues a task, which must not panic.
    pub fn submit(self: &Arc<Self>, task: Task) {
        let mut queue = self.queue.lock();
        queue.tasks.push_back(task);
        if queue.idle >= queue.tasks.len() || queue.threads >= THREADS_MAX {
            drop(queue);
            self.more.notify_one();
            return;
        }
        queue.threads += 1;
        drop(queue);
        let pool = self.clone();
        let started = std::thread::Builder::new().name("keel-blocking".into()).spawn(move || pool.work());
        if started.is_err() {
            self.could_not_start();
        }
    }

    /// Without any thread the tasks run here: slow, but they run.
    fn could_not_start(&self) {
        let mut queue = self.queue.lock();
        queue.threads -= 1;
        if queue.threads == 0 {
            let tasks = std::mem::take(&mut queue.tasks);
            drop(queue);
            tasks.into_iter().for_each(|task| task());
        }
    }

    /// Runs `f` on the pool while the calling fiber is parked; `f` must not panic.
    pub fn run_and_park(self: &Arc<Self>, event: WaitEvent, f: impl FnOnce() + Send) {
        let done = AtomicBool::new(false);
        let caller = fiber::current();
        let flag = &done;
        let task: Box<dyn FnOnce() + Send + '_> = Box::new(move || {
            f();
            flag.store(true, Ordering::Release);
            caller.wake();
        });
        // SAFETY: the task borrows from this frame, which stays until `done` is set, the last borrow the task uses.
        let task = unsafe { std::mem::transmute::<Box<dyn FnOnce() + Send + '_>, Task>(task) };
        self.submit(task);
        while !done.load(Ordering::Acquire) {
            fiber::park(event);
        }
    }

    /// Lets the threads end once the queue is empty.
    pub fn stop(&self) {
        self.queue.lock().stopping = true;
        self.more.notify_all();
    }

    fn work(&self) {
        let mut queue = self.queue.lock();
        loop {
            if let Some(task) = queue.tasks.pop_front() {
                drop(queue);
                task();
                queue = self.queue.lock();
                continue;
            }
            if queue.stopping {
                break;
            }
            queue.idle += 1;
            let timed_out = self.more.wait_for(&mut queue, IDLE_MAX).timed_out();
            queue.idle -= 1;
            if timed_out && queue.tasks.is_empty() {
                break;
            }
        }
        queue.threads -= 1;
    }
}
