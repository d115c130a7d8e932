//! What waits to be written on a connection: the loop adds frames at one end, the connection's task takes all that are
//! there at the other. Frames lie in common buffers, so that adding one costs a copy and no memory of its own.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;
use tokio::time::Instant;

/// How many bytes are gathered for one write, and how large a buffer is kept for the next.
const CHUNK_BYTES: usize = 64 << 10;

/// Makes the two ends. At most so many bytes wait between them.
pub(super) fn outflow(bytes_max: usize) -> (Inlet, Outlet) {
    let shared = Arc::new(Shared::default());
    let inlet = Inlet {
        shared: Arc::clone(&shared),
        bytes_max,
    };
    let outlet = Outlet {
        shared,
        taken: Vec::new(),
    };
    (inlet, outlet)
}

/// The loop's end. Without it, the other ends after what was added.
#[derive(Debug)]
pub(super) struct Inlet {
    shared: Arc<Shared>,
    bytes_max: usize,
}

/// The end of the connection's task.
#[derive(Debug)]
pub(super) struct Outlet {
    shared: Arc<Shared>,
    /// What was taken last.
    taken: Vec<u8>,
}

#[derive(Debug, Default)]
struct Shared {
    queue: Mutex<Queue>,
    /// Rings when there is something to take, or will never be again.
    ready: Notify,
}

#[derive(Debug, Default)]
struct Queue {
    batches: VecDeque<Batch>,
    /// Bytes that were added and are not written.
    bytes: usize,
    /// An empty buffer for the next batch.
    spare: Vec<u8>,
    /// Whether one of the ends is gone.
    closed: bool,
}

/// Frames that are due together.
#[derive(Debug)]
struct Batch {
    frames: Vec<u8>,
    /// Not to be sent earlier.
    due: Option<Instant>,
}

impl Inlet {
    /// Adds a frame, and tells whether there was room. What is due later must not be added earlier.
    pub(super) fn add(&self, frame: &[u8], due: Option<Instant>) -> bool {
        let mut queue = self.shared.lock();
        if queue.closed {
            // A task that is gone has said so, or is about to: the loop will hear of it. What is sent meanwhile is lost.
            return true;
        }
        if queue.bytes + frame.len() > self.bytes_max {
            return false;
        }
        queue.bytes += frame.len();
        if let Some(last) = queue.batches.back_mut()
            && last.due == due
        {
            last.frames.extend_from_slice(frame);
            return true;
        }
        let mut frames = std::mem::take(&mut queue.spare);
        frames.extend_from_slice(frame);
        queue.batches.push_back(Batch { frames, due });
        let waits = queue.batches.len() == 1;
        drop(queue);
        if waits {
            self.shared.ready.notify_one();
        }
        true
    }
}

impl Drop for Inlet {
    fn drop(&mut self) {
        self.shared.lock().closed = true;
        self.shared.ready.notify_one();
    }
}

impl Outlet {
    /// Waits for something to send, and returns it with the moment before which it must not be; `None` at the end. What
    /// was taken before counts as written.
    pub(super) async fn take(&mut self) -> Option<(&[u8], Option<Instant>)> {
        loop {
            match self.shared.lock().take(&mut self.taken) {
                Taken::Batch(due) => return Some((&self.taken, due)),
                Taken::End => return None,
                Taken::Nothing => {}
            }
            self.shared.ready.notified().await;
        }
    }
}

impl Drop for Outlet {
    fn drop(&mut self) {
        let mut queue = self.shared.lock();
        queue.closed = true;
        queue.batches.clear();
    }
}

impl Shared {
    /// Locks even after a panic elsewhere: every change here is complete or did not happen.
    fn lock(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What there was to take.
enum Taken {
    Batch(Option<Instant>),
    Nothing,
    End,
}

impl Queue {
    /// Exchanges what was taken before for what is next.
    fn take(&mut self, taken: &mut Vec<u8>) -> Taken {
        self.bytes -= taken.len();
        taken.clear();
        let Some(mut first) = self.batches.pop_front() else {
            return if self.closed {
                Taken::End
            } else {
                Taken::Nothing
            };
        };
        std::mem::swap(taken, &mut first.frames);
        if first.frames.capacity() <= CHUNK_BYTES {
            self.spare = first.frames;
        }
        // Late frames that are due by now go with it.
        while taken.len() < CHUNK_BYTES
            && let Some(next) = self.batches.front()
            && next.due.is_none_or(|due| due <= Instant::now())
        {
            taken.extend_from_slice(&next.frames);
            self.batches.pop_front();
        }
        Taken::Batch(first.due)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    async fn taken(outlet: &mut Outlet) -> Option<(Vec<u8>, Option<Instant>)> {
        let (frames, due) = outlet.take().await?;
        Some((frames.to_vec(), due))
    }

    #[tokio::test]
    async fn what_is_added_is_taken_in_order_and_then_it_ends() {
        let (inlet, mut outlet) = outflow(100);
        assert!(inlet.add(b"one", None) && inlet.add(b"two", None));
        assert_eq!(taken(&mut outlet).await, Some((b"onetwo".to_vec(), None)));
        let due = Instant::now() + Duration::from_secs(3600);
        let later = due + Duration::from_secs(1);
        for (frame, due) in [(b"a", due), (b"b", due), (b"c", later)] {
            assert!(inlet.add(frame, Some(due)));
        }
        drop(inlet);
        assert_eq!(taken(&mut outlet).await, Some((b"ab".to_vec(), Some(due))));
        assert_eq!(taken(&mut outlet).await, Some((b"c".to_vec(), Some(later))));
        assert_eq!(taken(&mut outlet).await, None);
    }

    #[tokio::test]
    async fn late_frames_that_are_due_go_together() {
        let (inlet, mut outlet) = outflow(100);
        let now = Instant::now();
        assert!(inlet.add(b"a", Some(now)));
        assert!(inlet.add(b"b", Some(now + Duration::from_nanos(1))));
        assert_eq!(taken(&mut outlet).await, Some((b"ab".to_vec(), Some(now))));
    }

    #[tokio::test]
    async fn whoever_waits_hears_of_a_frame_and_of_the_end() {
        let (inlet, mut outlet) = outflow(100);
        let waits = tokio::spawn(async move {
            let first = taken(&mut outlet).await;
            (first, taken(&mut outlet).await)
        });
        tokio::task::yield_now().await;
        assert!(inlet.add(b"x", None));
        tokio::task::yield_now().await;
        drop(inlet);
        let first = Some((b"x".to_vec(), None));
        assert_eq!(waits.await.expect("no panic"), (first, None));
    }

    #[tokio::test]
    async fn there_is_room_again_when_what_was_taken_is_written() {
        let (inlet, mut outlet) = outflow(4);
        assert!(inlet.add(b"1234", None));
        assert!(!inlet.add(b"5", None));
        assert!(taken(&mut outlet).await.is_some());
        assert!(!inlet.add(b"5", None), "it may not be written yet");
        let mut next = poll_once(outlet.take());
        assert!(next.is_none());
        assert!(inlet.add(b"5", None));
        next = poll_once(outlet.take());
        assert_eq!(next, Some(b"5".to_vec()));
        drop(outlet);
        assert!(inlet.add(&[0; 3], None), "nobody reads it");
    }

    /// Polls once.
    fn poll_once<'a>(
        take: impl Future<Output = Option<(&'a [u8], Option<Instant>)>>,
    ) -> Option<Vec<u8>> {
        let take = std::pin::pin!(take);
        let mut context = std::task::Context::from_waker(std::task::Waker::noop());
        match take.poll(&mut context) {
            std::task::Poll::Ready(taken) => taken.map(|(frames, _)| frames.to_vec()),
            std::task::Poll::Pending => None,
        }
    }
}
