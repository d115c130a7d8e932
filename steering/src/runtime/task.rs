//! Tasks without their types, so that all that tokio does for a task is compiled here, and not for every service anew.

use std::pin::Pin;

use tokio::task::JoinHandle;

/// Starts a task.
pub(crate) fn spawn(task: impl Future<Output = ()> + Send + 'static) -> JoinHandle<()> {
    spawn_boxed(Box::pin(task))
}

fn spawn_boxed(task: Pin<Box<dyn Future<Output = ()> + Send>>) -> JoinHandle<()> {
    tokio::spawn(task)
}
