//! Flags that set keys of a recipe, made from the declarations of the keys.

use anyhow::Result;
use clap::{Arg, ArgAction, ArgMatches, Args, Command, FromArgMatches};
use octant_recipe::flags::{FlaggedKey, apply, flags};
use std::marker::PhantomData;
use toml::{Table, Value};

/// Which keys a command has flags for.
pub(crate) trait Selection {
    fn includes(key: &FlaggedKey) -> bool;
}

/// All of them.
pub(crate) struct Every;

impl Selection for Every {
    fn includes(_: &FlaggedKey) -> bool {
        true
    }
}

/// Those that change which programs there are; a plan looks at nothing else.
pub(crate) struct Programs;

impl Selection for Programs {
    fn includes(key: &FlaggedKey) -> bool {
        const OTHERS: [&str; 19] = [
            "gallery",
            "histograms",
            "sampling",
            "checkpoint_store",
            "mlflow",
            "wandb",
            "weights",
            "device",
            "cores",
            "cache",
            "seed",
            "workers",
            "on_corrupt",
            "validate_every",
            "patience",
            "checkpoint_every",
            "lr",
            "min_lr",
            "scale_lr",
        ];
        !OTHERS.contains(&key.spec.key)
    }
}

/// What was given on the command line: positions in the recipe and their values.
pub(crate) struct RecipeFlags<S = Every> {
    given: Vec<(String, Value)>,
    selection: PhantomData<S>,
}

impl<S> RecipeFlags<S> {
    /// What was given: positions in the recipe and their values.
    pub fn given(&self) -> &[(String, Value)] {
        &self.given
    }

    /// Writes what was given into a recipe.
    pub fn apply(&self, table: &mut Table) -> Result<()> {
        Ok(self.given.iter().try_for_each(|(position, value)| apply(table, position, value.clone()))?)
    }
}

impl<S: Selection> Args for RecipeFlags<S> {
    fn augment_args(command: Command) -> Command {
        flags().iter().filter(|key| S::includes(key)).fold(command, |command, key| {
            // A command may have a flag of that name with a meaning of its own.
            let name = key.spec.flag.as_ref().map(|flag| flag.name.as_str());
            let is_there = command.get_arguments().any(|argument| argument.get_long() == name);
            if is_there { command } else { command.arg(argument(key)) }
        })
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

/// A name that no other argument has.
fn id(key: &FlaggedKey) -> String {
    format!("recipe.{}", key.key_path)
}

fn argument(key: &FlaggedKey) -> Arg {
    let spec = &key.spec;
    let flag = spec.flag.as_ref().expect("these keys have flags");
    let mut help = spec.doc.clone();
    if !spec.choices.is_empty() {
        help += &format!(" [{}]", spec.choices.join(", "));
    }
    if !spec.unset.is_empty() && spec.unset != "–" {
        help += &format!(" [if not given: {}]", spec.unset.replace('`', ""));
    }
    let mut argument = Arg::new(id(key)).long(flag.name.clone()).help(help).action(ArgAction::Set);
    argument = argument.value_name(flag.value.map_or_else(|| spec.key.to_uppercase(), str::to_string));
    if let Some(alias) = flag.alias {
        argument = argument.visible_alias(alias);
    }
    match spec.is_switch {
        true => argument.num_args(0..=1).require_equals(true).default_missing_value("true").value_name("true|false"),
        false => argument,
    }
}

impl<S: Selection> FromArgMatches for RecipeFlags<S> {
    fn from_arg_matches(matches: &ArgMatches) -> Result<RecipeFlags<S>, clap::Error> {
        let text = |key: &FlaggedKey| matches.try_get_one::<String>(&id(key)).ok().flatten().cloned();
        let keys = flags().into_iter().filter(S::includes);
        let given = keys.filter_map(|key| text(&key).map(|text| (key.key_path, (key.spec.from_text)(&text)))).collect();
        Ok(RecipeFlags { given, selection: PhantomData })
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}
