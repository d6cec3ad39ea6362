use super::*;

/// The words of a command line; a value in brackets may hold spaces.
pub(super) fn words(line: &str) -> Vec<String> {
    line.replace(", ", ",").split_whitespace().map(str::to_string).collect()
}

pub(super) fn translated(line: &str) -> Result<Translation> {
    translate(&words(line))
}

fn command(line: &str) -> (String, Vec<String>) {
    let result = translated(line).unwrap_or_else(|error| panic!("{line}: {error:#}"));
    (result.command.join(" "), result.notes)
}

fn refused(line: &str) -> String {
    format!("{:#}", translated(line).expect_err(line))
}

#[test]
fn training_commands_are_understood() {
    let (line, notes) =
        command("detect train data=coco8.yaml model=yolo11n.yaml epochs=100 imgsz=640 batch=-1 device=0");
    assert_eq!(
        line,
        "train detect --model yolo11n --data coco8.yaml --set data.bad_labels=drop-image --epochs 100 --image-size 640 --batch-size auto --device cuda:0"
    );
    assert!(notes.is_empty(), "{notes:?}");
    let (line, notes) =
        command("mode=train task=detect model=yolov8s.yaml mosaic=0.5 freeze=2 device=0,1 copy_paste=0.1 plots=False");
    assert_eq!(
        line,
        "train detect --model yolov8s --set augment.mosaic=0.5 --freeze model.0,model.1 --device cuda:0,1 --cores 2 --set \
         augment.copy_paste=0.1"
    );
    assert_eq!(notes, ["plots=False has no effect: plots are always written into the run directory"]);
    let (line, _) = command(
        "train model=yolo11n.yaml optimizer=AdamW lr0=0.002 lrf=0.1 warmup_epochs=1 batch=0.7 project=out name=a \
         multi_scale=False multi_scale=True time=1.5",
    );
    assert_eq!(
        line,
        "train detect --model yolo11n --out out/a --optimizer adamw --lr 0.002 --set phases.0.schedule.min_share=0.1 --set \
         phases.0.warmup.epochs=1 --batch-size 70% --set augment.multi_scale=0.5 --time 1.5h"
    );
}

#[test]
fn weights_that_are_missing_were_trained_from_random_ones() {
    for line in ["train model=yolo11n.pt", "val model=yolo11n.pt", "predict model=yolo11n source=photos"] {
        let sentence = refused(line);
        assert!(sentence.contains("there is no file yolo11n") && sentence.contains("model=yolo11n.yaml"), "{sentence}");
        assert!(sentence.contains("AGPL-3.0"), "{sentence}");
    }
    assert!(refused("val model=yolo11n.yaml").contains("no weights to evaluate"));
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("yolo11n.pt");
    std::fs::write(&file, b"").unwrap();
    let file = file.display();
    assert_eq!(command(&format!("train model={file}")).0, format!("train detect --model yolo11n --weights {file}"));
    assert_eq!(command(&format!("train model={file} pretrained=False")).0, "train detect --model yolo11n");
    assert_eq!(
        command(&format!("train model=yolo11n.yaml pretrained={file}")).0,
        format!("train detect --model yolo11n --weights {file}")
    );
    let (line, _) = command(&format!("predict model={file} source=photos conf=0.4 classes=[0,2] save_txt=True"));
    assert_eq!(line, format!("predict photos --model yolo11n --weights {file} --conf 0.4 --only 0,2 --labels"));
    let (line, _) = command(&format!("val model={file} data=coco8.yaml split=test half=True"));
    assert_eq!(
        line,
        format!(
            "eval {file} --recipe detect --set model=yolo11n --data coco8.yaml --set data.bad_labels=drop-image --set data.validate_on=test --set precision=bf16"
        )
    );
}

/// What a file says of itself, the size of images among it, counts more than its name.
#[test]
fn the_size_that_a_file_names_was_not_used() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("yolo11n.safetensors");
    let entry = octant_zoo::find("yolov8-tiny").unwrap();
    let (specs, _) = octant_zoo::describe(&*(entry.build)(2), entry.preprocessing.input).unwrap();
    let values: Vec<_> = specs.iter().map(|spec| spec.initial(1)).collect();
    octant_zoo::weights::save(&file, entry, 2, &specs, &values, 0).unwrap();
    let file = file.display();
    assert_eq!(command(&format!("val model={file}")).0, format!("eval {file}"));
    assert_eq!(command(&format!("predict model={file} source=photos")).0, format!("predict {file} photos"));
    assert_eq!(command(&format!("train model={file}")).0, format!("train detect --model yolov8-tiny --weights {file}"));
    assert!(refused("val model=runs/detect-1").contains("there is no runs/detect-1; give the directory of a run"));
}

#[test]
fn misspelled_settings_were_dropped_and_a_hundred_epochs_began() {
    assert!(refused("train model=yolo11n.yaml epoch=3").contains("did you mean epochs=3?"));
    assert!(refused("train model=yolo11n.yaml imgs=64").contains("did you mean imgsz=64?"));
    assert!(refused("train model=yolo11n.yaml img=64").contains("did you mean imgsz=64?"));
    assert!(refused("train model=yolo11n.yaml nonsense=64").contains("`octant yolo help`"));
    assert!(refused("trian model=yolo11n.yaml").contains("did you mean train?"));
    assert!(refused("train epochs 3").contains("KEY=VALUE"));
    assert!(refused("segmnt train").contains("did you mean segment?"));
    assert!(refused("mode=train task=segmnt").contains("did you mean segment?"));
    assert!(refused("export model=yolo11n.yaml").contains("train, val and predict"));
    assert!(refused("detect").contains("say what to do"));
}

#[test]
fn every_task_has_its_recipe_and_its_keys() {
    let (line, notes) = command("segment train data=coco8-seg.yaml model=yolo11n-seg.yaml epochs=3");
    let wanted = "train instance --model yolo11n-seg --data coco8-seg.yaml --set data.bad_labels=drop-image --epochs 3";
    assert_eq!((line.as_str(), notes.is_empty()), (wanted, true));
    // The model says which task it is for.
    assert!(
        command("train model=yolov8s-pose.yaml pose=10.0")
            .0
            .ends_with("pose --model yolov8s-pose --set gains.keypoints=10.0")
    );
    assert!(
        command("obb train model=yolo11m-obb.yaml angle=2").0.ends_with("obb --model yolo11m-obb --set gains.angles=2")
    );
    let (line, notes) = command("train model=yolo11n.yaml pose=10.0 kobj=1.0");
    assert_eq!((line.as_str(), notes.len()), ("train detect --model yolo11n", 1));
    assert!(notes[0].contains("belongs to pose"), "{notes:?}");
    assert!(
        command("classify train data=photos model=yolo11n-cls.yaml")
            .0
            .ends_with("classify --model yolo11n-cls --data photos")
    );
    assert!(refused("classify train model=yolo11n-cls.yaml mosaic=0.5").contains("no counterpart for classify"));
    assert!(refused("pose train model=yolo11n-seg.yaml").contains("is for segment, not pose"));
    assert!(refused("segment train model=yolo11n-seg.yaml overlap_mask=False").contains("one object, the smallest"));
}

#[test]
fn settings_of_another_mode_are_reported_to_have_no_effect() {
    let (line, notes) = command("train model=yolo11n.yaml conf=0.4");
    assert_eq!(line, "train detect --model yolo11n");
    assert_eq!(notes, ["conf=0.4 has no effect on train: it is for val and predict"]);
}

#[test]
fn tpus_became_gpus_and_indices_were_lost() {
    let device = |value: &str| command(&format!("train model=yolo11n.yaml device={value}")).0.split_off(29);
    assert_eq!(device("tpu"), "--device tpu");
    assert_eq!(device("cpu"), "--device cpu");
    assert_eq!(device("3"), "--device cuda:3");
    assert_eq!(device("1,2"), "--device cuda:1,2 --cores 2");
    assert_eq!(device("[1,2]"), "--device cuda:1,2 --cores 2");
    assert_eq!(device("cuda:1"), "--device cuda:1");
    assert_eq!(device("-1"), "--device cuda:idle");
    assert!(refused("train model=yolo11n.yaml device=mps").contains("device=cpu"));
    assert!(refused("train model=yolo11n.yaml device=gpu0").contains("the number of a GPU"));
}

#[test]
fn files_of_settings_were_dropped() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("hyp.scratch-high.yaml");
    std::fs::write(
        &file,
        "# Hyperparameters\nlr0: 0.01  # initial learning rate\nlrf: 0.1\nwarmup_epochs: 3.0\nbox: 0.05\nanchor_t: 4.0\n\
         fl_gamma: 0.5\ndegrees: 0.0\nfreeze:\nverbose: true\ndevice: None\n",
    )
    .unwrap();
    let file = file.display();
    for key in ["hyp", "cfg"] {
        let (line, notes) = command(&format!("train model=yolo11n.yaml lrf=0.5 {key}={file}"));
        assert_eq!(
            line,
            "train detect --model yolo11n --lr 0.01 --set phases.0.warmup.epochs=3.0 --set gains.boxes=0.05 --set \
             augment.degrees=0.0 --set phases.0.schedule.min_share=0.5"
        );
        assert_eq!(notes.len(), 1, "{notes:?}");
        assert!(notes[0].starts_with("fl_gamma=0.5 has no effect"), "{notes:?}");
    }
    std::fs::write(folder.path().join("wrong.yaml"), "epoch: 3\n").unwrap();
    let sentence = refused(&format!("train cfg={}", folder.path().join("wrong.yaml").display()));
    assert!(sentence.contains("wrong.yaml") && sentence.contains("did you mean epochs=3?"), "{sentence}");
    assert!(refused("train cfg=missing.yaml").contains("cannot read missing.yaml"));
}

#[test]
fn runs_are_resumed_and_started_from() {
    let folder = tempfile::tempdir().unwrap();
    let run = folder.path().join("detect-1");
    std::fs::create_dir(&run).unwrap();
    std::fs::write(run.join("config.toml"), "name = \"detect\"\nmodel = \"yolo11s\"\n").unwrap();
    let run = run.display().to_string();
    assert_eq!(command(&format!("train model={run} resume=True")).0, format!("train {run}"));
    assert_eq!(command(&format!("train resume={run} epochs=5")).0, format!("train {run} --epochs 5"));
    assert_eq!(
        command(&format!("train model={run}")).0,
        format!("train detect --model yolo11s --weights {run}/checkpoints/best/model.safetensors")
    );
    assert_eq!(command(&format!("val model={run}")).0, format!("eval {run}"));
    assert!(refused("train model=yolo11n.yaml resume=True").contains("the directory of a run"));
    assert!(refused(&format!("predict model={run} source=a.jpg half=True")).contains("amp=True"));
}

#[test]
fn a_directory_that_exists_is_kept_unless_it_may_be_overwritten() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::create_dir(folder.path().join("a")).unwrap();
    let project = folder.path().display();
    let line = |rest: &str| command(&format!("train model=yolo11n.yaml project={project} name=a{rest}")).0;
    assert!(line("").ends_with(&format!("--out {project}/a2")));
    assert!(line(" exist_ok=True").ends_with(&format!("--out {project}/a --fresh")));
}
