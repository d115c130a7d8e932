//! Timers, calls and what survives a reset.

use scry::runtime::{DiskOptions, End, Kind, Options, bind};

use crate::cluster::{ONE, call, pair, report, start, until};
use crate::probe::{Alarm, Call, Probe};

#[tokio::test]
async fn timers_fire_move_are_cancelled_and_arm_themselves_again() {
    let (one, _two) = pair().await;
    call(&one, Call::Arm(Alarm::First, 3_600_000)).await;
    call(&one, Call::Arm(Alarm::Second, 3_600_000)).await;
    assert_eq!(
        one.state().await.expect("it lives").timers,
        [Alarm::First, Alarm::Second]
    );
    call(&one, Call::Cancel(Alarm::Second)).await;
    call(&one, Call::Arm(Alarm::First, 1)).await;
    until(&one, "the first", |probe| probe.fired == [Alarm::First]).await;
    assert_eq!(one.state().await.expect("it lives").timers, []);
    call(&one, Call::Arm(Alarm::Often(6), 0)).await;
    until(&one, "the rest", |probe| probe.fired.len() == 6).await;
    assert_eq!(one.state().await.expect("it lives").timers, []);
}

#[tokio::test]
async fn a_reset_forgets_timers_and_state_and_keeps_the_disk_and_ticks() {
    let (one, _two) = pair().await;
    call(&one, Call::Arm(Alarm::First, 3_600_000)).await;
    call(&one, Call::Keep(7)).await;
    call(&one, Call::Tick).await;
    let before = one.state().await.expect("it lives").state;
    one.reset(false).await.expect("it lives");
    call(&one, Call::Tick).await;
    let after = one.state().await.expect("it lives");
    assert_eq!(after.timers, []);
    assert_eq!((after.state.kept, after.state.calls), (7, 1));
    assert!(after.state.ticks[0] > before.ticks[0]);
}

#[tokio::test]
async fn what_is_on_disk_survives_the_process() {
    let directory = std::env::temp_dir().join(format!("scry-runtime-{}", std::process::id()));
    let options = |sync| {
        let directory = directory.clone();
        Options {
            disk: Some(DiskOptions { directory, sync }),
            ..Options::<Probe>::new(ONE, ())
        }
    };
    let mut last = 0;
    for life in 0..4 {
        let one = start(options(life % 2 == 0));
        let found = one.state().await.expect("it lives").state;
        assert_eq!(
            found,
            Probe {
                kept: life,
                ..Probe::default()
            }
        );
        call(&one, Call::Tick).await;
        let ticks = one.state().await.expect("it lives").state.ticks;
        assert!(ticks[0] > last);
        last = ticks[0];
        call(&one, Call::Keep(life + 1)).await;
        assert_eq!(one.shutdown().await, End::Shutdown);
    }
    // A file that is not one of this service is not taken for an empty one.
    std::fs::write(directory.join("disk"), b"\xc1").expect("it works");
    let one = start(options(false));
    assert!(matches!(one.ended().await, End::Failed(_)));
    std::fs::remove_dir_all(&directory).expect("it works");
}

#[tokio::test]
async fn a_watcher_sees_everything_from_the_start() {
    let mut bound = bind(Options::<Probe>::new(ONE, ())).expect("it works");
    let mut reports = bound.watch();
    let address = bound.address();
    let one = bound.spawn();
    assert_eq!(one.address(), address);
    call(&one, Call::Arm(Alarm::First, 0)).await;
    report(&mut reports, "the start", |report| {
        report.kind == Kind::Start
    })
    .await;
    let called = report(&mut reports, "the call", |report| report.kind == Kind::Call).await;
    assert_eq!(called.event, "call Arm(First, 0)");
    assert_eq!(called.timers, [Alarm::First]);
    let fired = report(&mut reports, "the timer", |report| {
        report.kind == Kind::Timer
    })
    .await;
    assert_eq!(fired.state.fired, [Alarm::First]);
    one.shutdown().await;
    report(&mut reports, "the end", |report| {
        report.kind == Kind::Shutdown
    })
    .await;
    assert!(reports.recv().await.is_none());
}
