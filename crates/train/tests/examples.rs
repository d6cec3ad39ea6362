//! The examples do what they say.

#![allow(clippy::unwrap_used, reason = "a test that cannot be set up has failed")]

#[path = "../examples/own_task.rs"]
mod own_task;

#[test]
fn a_model_and_a_task_of_ones_own_learn_and_take_less_than_a_hundred_lines() {
    let losses = own_task::train().unwrap();
    assert!(losses.windows(2).all(|pair| pair[1] < pair[0]), "{losses:?}");
    assert!(include_str!("../examples/own_task.rs").lines().count() < 100);
}
