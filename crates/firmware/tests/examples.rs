//! The example of batches and views prints what its comments promise.

#[path = "../examples/batches.rs"]
mod batches;

#[test]
fn a_batch_is_atomic_a_view_keeps_what_it_saw_and_an_image_is_opened_again() {
    let dir = tempfile::tempdir().unwrap();
    let mut out = Vec::new();
    batches::run(&dir.path().join("my.lode"), &mut out).unwrap();
    assert_eq!(
        String::from_utf8(out).unwrap(),
        "newest   from: 60, to: 40\nview     from: 100, to: 0\nreopened from: 60, to: 40\n"
    );
    // The image is there already: it is not written over.
    assert!(batches::run(&dir.path().join("my.lode"), &mut Vec::new()).is_err());
}
