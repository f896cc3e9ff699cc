//! Fibers, waits and workers in the real world, on both reactors.

use crate::common::{in_each_reactor, on_each_reactor};
use keel_runtime::fiber::{self, Fiber};
use keel_runtime::sync::{Event, Mutex, RwLock, Semaphore, WaitQueue, channel};
use keel_runtime::wait::WaitEvent;
use keel_runtime::{Config, Runtime, latch, stats, time, wait, worker_count, worker_index};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

/// Waits on a fiber or thread until `n` jobs have counted themselves in.
struct Countdown {
    left: AtomicUsize,
    zero: Event,
}
impl Countdown {
    fn new(n: usize) -> Arc<Countdown> {
        Arc::new(Countdown { left: AtomicUsize::new(n), zero: Event::new() })
    }
    fn one(&self) {
        if self.left.fetch_sub(1, Ordering::AcqRel) == 1 {
            self.zero.set();
        }
    }
    fn wait(&self) {
        let deadline = time::now() + Duration::from_secs(30);
        assert!(self.zero.wait_until(WaitEvent::Other, deadline), "{:?} jobs are missing", self.left);
    }
}

#[test]
fn block_on_runs_on_worker_zero_and_returns_the_value() {
    on_each_reactor(|rt| {
        let here = std::thread::current().id();
        let (index, count, there) =
            rt.block_on(|| (worker_index(), worker_count(), std::thread::current().id()));
        assert!(matches!(rt.reactor_name(), "epoll" | "io_uring"));
        assert_eq!((index, count), (0, 2));
        assert_ne!(here, there);
        assert!(!fiber::in_fiber());
    });
}

#[test]
fn a_panic_reaches_the_caller_of_block_on_and_the_worker_survives() {
    on_each_reactor(|rt| {
        let panicked = catch_unwind(AssertUnwindSafe(|| rt.block_on(|| panic!("on purpose"))));
        assert!(panicked.is_err());
        rt.block_on(|| fiber::spawn(|| panic!("on purpose too")));
        assert_eq!(rt.block_on(|| 7), 7);
    });
}

#[test]
fn fibers_are_spawned_on_the_worker_asked_for() {
    in_each_reactor(|| {
        let done = Countdown::new(200);
        for n in 0..200 {
            let done = done.clone();
            fiber::spawn_on(n % 2, move || {
                assert_eq!(worker_index(), n % 2);
                done.one();
            });
        }
        done.wait();
    });
}

#[test]
fn a_service_has_a_thread_and_a_slot_of_its_own() {
    in_each_reactor(|| {
        let done = Countdown::new(1);
        let d = done.clone();
        let main = std::thread::current().id();
        fiber::spawn_service("test-service", move || {
            assert_ne!(std::thread::current().id(), main);
            assert!((worker_count()..keel_runtime::slot_count()).contains(&worker_index()));
            fiber::sleep(Duration::from_millis(1));
            d.one();
        });
        done.wait();
    });
}

#[test]
fn a_wake_before_the_park_is_not_lost() {
    on_each_reactor(|rt| {
        rt.block_on(|| {
            fiber::current().wake();
            fiber::park(WaitEvent::Other);
        });
    });
}

#[test]
fn timers_fire_in_time_and_in_order() {
    on_each_reactor(|rt| {
        let order = rt.block_on(|| {
            let order = Arc::new(Mutex::new(Vec::new()));
            let done = Countdown::new(3);
            for (n, millis) in [(2, 30), (0, 5), (1, 15)] {
                let (order, done) = (order.clone(), done.clone());
                fiber::spawn(move || {
                    let start = time::now();
                    fiber::sleep(Duration::from_millis(millis));
                    assert!(start.elapsed() >= Duration::from_millis(millis));
                    order.lock().push(n);
                    done.one();
                });
            }
            done.wait();
            order.lock().clone()
        });
        assert_eq!(order, [0, 1, 2]);
        rt.block_on(|| {
            let deadline = time::now() + Duration::from_millis(3);
            while fiber::park_until(WaitEvent::Other, deadline) {}
            assert!(time::now() >= deadline);
            assert!(!fiber::park_until(WaitEvent::Other, deadline), "a past deadline has passed");
        });
    });
}

#[test]
fn wakes_between_workers_are_never_lost() {
    in_each_reactor(|| {
        // Pairs on different workers hand a turn to and fro; a lost wake would stop one pair for good.
        const PAIRS: usize = 8;
        const TURNS: u64 = 2000;
        let done = Countdown::new(PAIRS * 2);
        for pair in 0..PAIRS {
            let turn = Arc::new(AtomicU64::new(0));
            let fibers: Arc<[Mutex<Option<Fiber>>; 2]> = Arc::default();
            for side in 0..2u64 {
                let (turn, fibers, done) = (turn.clone(), fibers.clone(), done.clone());
                fiber::spawn_on((pair + side as usize) % 2, move || {
                    *fibers[side as usize].lock() = Some(fiber::current());
                    for n in 0..TURNS {
                        while turn.load(Ordering::Acquire) != n * 2 + side {
                            fiber::park(WaitEvent::Other);
                        }
                        turn.store(n * 2 + side + 1, Ordering::Release);
                        if let Some(other) = *fibers[1 - side as usize].lock() {
                            other.wake();
                        }
                    }
                    done.one();
                });
            }
        }
        done.wait();
    });
}

#[test]
fn wake_many_wakes_all_on_all_workers() {
    in_each_reactor(|| {
        let done = Countdown::new(100);
        let go = Arc::new(AtomicBool::new(false));
        let parked = Arc::new(Mutex::new(Vec::new()));
        for n in 0..100 {
            let (done, go, parked) = (done.clone(), go.clone(), parked.clone());
            fiber::spawn_on(n % 2, move || {
                parked.lock().push(fiber::current());
                while !go.load(Ordering::Acquire) {
                    fiber::park(WaitEvent::LogFlush);
                }
                done.one();
            });
        }
        while parked.lock().len() < 100 {
            fiber::yield_now();
        }
        go.store(true, Ordering::Release);
        let mut all = parked.lock().clone();
        fiber::wake_many(&mut all);
        assert!(all.is_empty());
        done.wait();
    });
}

#[test]
fn mutex_and_rwlock_exclude_across_workers_and_threads() {
    in_each_reactor(|| {
        let total = Arc::new(Mutex::new(0u64));
        let shared = Arc::new(RwLock::new((0u64, 0u64)));
        let done = Countdown::new(20);
        let work = |total: &Mutex<u64>, shared: &RwLock<(u64, u64)>| {
            for n in 0..200 {
                let mut t = total.lock();
                let before = *t;
                if n % 10 == 0 && fiber::in_fiber() {
                    fiber::yield_now(); // held across a switch on purpose
                }
                *t = before + 1;
                drop(t);
                if n % 4 == 0 {
                    let mut pair = shared.write();
                    pair.0 += 1;
                    pair.1 += 1;
                } else {
                    let pair = shared.read();
                    assert_eq!(pair.0, pair.1);
                }
            }
        };
        for n in 0..18 {
            let (total, shared, done) = (total.clone(), shared.clone(), done.clone());
            fiber::spawn_on(n % 2, move || {
                work(&total, &shared);
                done.one();
            });
        }
        for _ in 0..2 {
            let (total, shared, done) = (total.clone(), shared.clone(), done.clone());
            std::thread::spawn(move || {
                work(&total, &shared);
                done.one();
            });
        }
        done.wait();
        assert_eq!(*total.lock(), 20 * 200);
        assert_eq!(shared.read().0, 20 * 50);
    });
}

#[test]
fn a_lock_that_is_not_had_in_time_is_given_up_and_blocks_nobody() {
    on_each_reactor(|rt| {
        rt.block_on(|| {
            let lock = Arc::new(RwLock::new(()));
            let held = lock.read();
            let soon = time::now() + Duration::from_millis(2);
            assert!(lock.write_until(WaitEvent::MetadataLock, soon).is_none());
            assert!(lock.try_read().is_some(), "the writer that gave up no longer stands in the way");
            drop(held);
            assert!(lock.try_write().is_some());
            let mutex = Mutex::new(1);
            let held = mutex.lock();
            assert!(mutex.lock_until(WaitEvent::Mutex, time::now() + Duration::from_millis(1)).is_none());
            drop(held);
            assert!(mutex.try_lock().is_some());
        });
    });
}

#[test]
fn semaphore_permits_bound_what_runs_at_once() {
    in_each_reactor(|| {
        let permits = Arc::new(Semaphore::new(3));
        let (inside, most) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
        let done = Countdown::new(30);
        for n in 0..30 {
            let (permits, inside, most, done) = (permits.clone(), inside.clone(), most.clone(), done.clone());
            fiber::spawn_on(n % 2, move || {
                permits.acquire(1, WaitEvent::Admission);
                let now = inside.fetch_add(1, Ordering::SeqCst) + 1;
                most.fetch_max(now, Ordering::SeqCst);
                fiber::sleep(Duration::from_micros(200));
                inside.fetch_sub(1, Ordering::SeqCst);
                permits.release(1);
                done.one();
            });
        }
        done.wait();
        assert!(most.load(Ordering::SeqCst) <= 3);
        assert_eq!(permits.available(), 3);
        assert!(!permits.try_acquire(4));
    });
}

#[test]
fn channel_delivers_everything_in_order_per_sender_and_ends() {
    in_each_reactor(|| {
        let (sender, receiver) = channel::<(usize, u64)>(4);
        for side in 0..2 {
            let sender = sender.clone();
            fiber::spawn_on(side, move || (0..500).for_each(|n| sender.send((side, n)).expect("open")));
        }
        drop(sender);
        let mut next = [0u64; 2];
        while let Some((side, n)) = receiver.recv() {
            assert_eq!(next[side], n);
            next[side] += 1;
        }
        assert_eq!(next, [500, 500]);
    });
}

#[test]
fn a_wait_queue_misses_no_change() {
    in_each_reactor(|| {
        let state = Arc::new((AtomicU64::new(0), WaitQueue::new()));
        let done = Countdown::new(2);
        for side in 0..2u64 {
            let (state, done) = (state.clone(), done.clone());
            fiber::spawn_on(side as usize, move || {
                for n in 0..2000 {
                    state.1.wait_while(WaitEvent::Queue, || state.0.load(Ordering::SeqCst) != n * 2 + side);
                    state.0.fetch_add(1, Ordering::SeqCst);
                    state.1.wake_all();
                }
                done.one();
            });
        }
        done.wait();
    });
}

#[test]
fn parking_with_a_latch_held_is_refused() {
    on_each_reactor(|rt| {
        let refused = rt.block_on(|| {
            latch::entered();
            let refused = catch_unwind(|| fiber::park(WaitEvent::Latch));
            latch::left();
            refused
        });
        let message = *refused.expect_err("must panic").downcast::<String>().expect("a message");
        assert!(message.contains("holding 1 latches"), "{message}");
    });
}

#[test]
fn a_busy_fiber_that_ticks_lets_others_run() {
    on_each_reactor(|rt| {
        rt.block_on(|| {
            let stop = Arc::new(AtomicBool::new(false));
            let s = stop.clone();
            fiber::spawn(move || s.store(true, Ordering::Release));
            let deadline = time::now() + Duration::from_secs(20);
            while !stop.load(Ordering::Acquire) {
                fiber::tick();
                assert!(time::now() < deadline, "the other fiber never ran");
            }
        });
    });
}

/// Starts fibers that run as long statements until `stop`, and waits until all of them are in the background.
fn start_long_statements(count: usize, stop: &Arc<AtomicBool>) {
    let ready = Countdown::new(count);
    for _ in 0..count {
        let (stop, ready) = (stop.clone(), ready.clone());
        fiber::spawn_on(0, move || {
            fiber::begin_statement();
            let began = time::now();
            let mut is_long = false;
            while !stop.load(Ordering::Acquire) {
                fiber::tick();
                if !is_long && began.elapsed() > Duration::from_millis(400) {
                    is_long = true;
                    ready.one();
                }
            }
        });
    }
    ready.wait();
}

#[test]
fn short_statements_go_before_long_ones() {
    let rt = Runtime::start(Config { workers: 1, ..Config::default() }).unwrap();
    let stop = Arc::new(AtomicBool::new(false));
    start_long_statements(30, &stop);
    let mut waits: Vec<Duration> = rt.block_on(|| {
        let wait = |_| {
            let began = time::now();
            let done = Arc::new((AtomicBool::new(false), WaitQueue::default()));
            let d = done.clone();
            fiber::spawn(move || {
                fiber::begin_statement();
                d.0.store(true, Ordering::Release);
                d.1.wake_all();
            });
            done.1.wait_while(WaitEvent::Other, || !done.0.load(Ordering::Acquire));
            began.elapsed()
        };
        (0..101).map(wait).collect()
    });
    waits.sort();
    stop.store(true, Ordering::Release);
    // In turn with 30 others that run for half a millisecond each it would be 15 ms.
    assert!(waits[50] < Duration::from_millis(5), "{:?}", waits[50]);
    assert!(rt.shutdown());
}

#[test]
fn more_jobs_than_fibers_all_run() {
    let rt = Runtime::start(Config { workers: 1, fibers_max: 1, ..Config::default() }).unwrap();
    let done = Countdown::new(500);
    rt.block_on(|| {
        for _ in 0..500 {
            let done = done.clone();
            fiber::spawn(move || {
                fiber::sleep(Duration::from_micros(10));
                done.one();
            });
        }
    });
    done.wait();
    assert!(rt.shutdown());
}

#[test]
fn stack_and_locals_belong_to_the_fiber() {
    on_each_reactor(|rt| {
        rt.block_on(|| {
            assert!((100 << 10..=256 << 10).contains(&fiber::stack_left()));
            fiber::set_local(7);
            let done = Countdown::new(1);
            let d = done.clone();
            fiber::spawn(move || {
                assert_eq!(fiber::get_local(), 0);
                fiber::set_local(9);
                d.one();
            });
            done.wait();
            assert_eq!(fiber::get_local(), 7);
        });
        assert_eq!(fiber::stack_left(), usize::MAX);
    });
}

/// Goes down so many levels of a kibibyte each, and looks at the stack before each, and parks at the bottom.
fn go_down(levels: usize) -> Option<usize> {
    let frame = std::hint::black_box([levels as u8; 1024]);
    if levels == 0 {
        fiber::sleep(Duration::from_micros(10));
        return Some(0);
    }
    let below = fiber::with_stack(16 << 10, || go_down(levels - 1))??;
    Some(below + usize::from(std::hint::black_box(frame)[levels % 1024] == levels as u8))
}

#[test]
fn what_goes_deep_takes_further_stacks() {
    on_each_reactor(|rt| {
        rt.block_on(|| {
            let before = fiber::stack_left();
            assert_eq!(go_down(100), Some(100));
            assert_eq!(go_down(2000), Some(2000), "two further stacks");
            assert_eq!(fiber::stack_left(), before);
            let thrown = std::panic::catch_unwind(|| fiber::with_stack(512 << 10, || panic!("thrown")));
            assert!(thrown.is_err());
            assert_eq!(fiber::stack_left(), before);
            // There is an end, after which all stacks are free again.
            assert_eq!(go_down(1 << 20), None);
            assert_eq!(go_down(2000), Some(2000));
            assert_eq!(fiber::with_stack(64 << 20, || ()), None);
        });
    });
}

#[test]
fn waits_are_counted_and_timed() {
    on_each_reactor(|rt| {
        let of = |event| {
            wait::totals().into_iter().find(|t| t.event == event).map(|t| (t.count, t.nanos)).unwrap()
        };
        let before = of(WaitEvent::UserLock);
        let own = rt.block_on(|| {
            let deadline = time::now() + Duration::from_millis(4);
            while fiber::park_until(WaitEvent::UserLock, deadline) {}
            wait::of_current_fiber()
        });
        let after = of(WaitEvent::UserLock);
        assert!(after.0 > before.0);
        assert!(after.1 - before.1 >= 3_900_000 && own >= 3_900_000, "{before:?} {after:?} {own}");
    });
}

#[test]
fn blocking_calls_do_not_hold_up_the_worker() {
    on_each_reactor(|rt| {
        rt.block_on(|| {
            let (sender, receiver) = std::sync::mpsc::channel();
            fiber::spawn(move || sender.send(()).expect("received below"));
            // The spawned fiber runs on this very worker while the pool thread blocks.
            fiber::blocking(WaitEvent::Blocking, move || receiver.recv_timeout(Duration::from_secs(20)))
                .unwrap();
            let panicked = catch_unwind(|| fiber::blocking(WaitEvent::Blocking, || panic!("inside")));
            assert!(panicked.is_err());
        });
    });
}

#[test]
fn shutdown_abandons_fibers_that_never_end() {
    let config = Config { workers: 2, shutdown_wait: Duration::from_millis(30), ..Config::default() };
    let rt = Runtime::start(config).unwrap();
    rt.block_on(|| {
        fiber::spawn(|| {
            loop {
                fiber::park(WaitEvent::Idle);
            }
        });
        fiber::spawn_service("endless", || fiber::sleep(Duration::from_secs(1 << 20)));
    });
    assert!(!rt.shutdown());
    let next = Runtime::start(Config { workers: 1, ..Config::default() }).unwrap();
    assert_eq!(next.block_on(|| 1), 1);
    assert!(next.shutdown());
}

#[test]
fn fibers_a_burst_has_made_are_given_back() {
    let rt = Runtime::start(Config { workers: 1, ..Config::default() }).unwrap();
    rt.block_on(|| {
        const BURST: usize = 3000;
        let (done, go) = (Countdown::new(BURST), Arc::new(Event::new()));
        for _ in 0..BURST {
            let (done, go) = (done.clone(), go.clone());
            fiber::spawn(move || {
                go.wait(WaitEvent::Other);
                done.one();
            });
        }
        fiber::yield_now();
        go.set();
        done.wait();
        let most = stats::totals().fibers;
        assert!(most >= BURST as u64);
        let deadline = time::now() + Duration::from_secs(30);
        while stats::totals().fibers > most - BURST as u64 / 2 {
            assert!(time::now() < deadline, "nothing given back");
            fiber::sleep(Duration::from_millis(50));
        }
        // The rest still works.
        let done = Countdown::new(200);
        for _ in 0..200 {
            let done = done.clone();
            fiber::spawn(move || {
                fiber::yield_now();
                done.one();
            });
        }
        done.wait();
    });
    assert!(rt.shutdown());
}
