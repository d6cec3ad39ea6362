//! The `yolo` command: translates Ultralytics' command line.

use anyhow::{Context, Result, bail};
use std::path::Path;

/// An Octant command with the meaning of one of theirs.
#[derive(Debug, Clone, PartialEq, Default)]
pub(crate) struct Translation {
    /// The command, without `octant` before it.
    pub command: Vec<String>,
    /// Notes about arguments without a counterpart, or with a differently named one.
    pub notes: Vec<String>,
}

/// Translate Ultralytics' command line: prints the Octant command, and runs it
#[derive(clap::Args)]
#[command(
    after_help = "Examples:\n  octant yolo detect train data=coco8.yaml model=yolo11n.pt epochs=100 imgsz=640\n  octant \
                        yolo predict model=runs/detect-1 source=photos conf=0.4\n  octant yolo mode=val model=runs/detect-1 \
                        data=coco8.yaml"
)]
pub(crate) struct Arguments {
    /// Their words: a task, a mode, and KEY=VALUE
    #[arg(required = true, value_name = "WORD")]
    words: Vec<String>,
    /// Print the command without running it
    #[arg(long)]
    pub dry_run: bool,
}

impl Arguments {
    pub fn translation(&self) -> Result<Translation> {
        translate(&self.words)
    }
}

/// Keys with the flag, or the key of the recipe, of the same meaning.
const SAME: [(&str, &str); 36] = [
    ("data", "--data"),
    ("epochs", "--epochs"),
    ("imgsz", "--image-size"),
    ("patience", "patience"),
    ("workers", "--workers"),
    ("seed", "--seed"),
    ("lr0", "--lr"),
    ("weight_decay", "--weight-decay"),
    ("momentum", "phases.0.momentum"),
    ("nbs", "--update-images"),
    ("single_cls", "data.single_class"),
    ("classes", "data.only_classes"),
    ("lrf", "phases.0.schedule.min_share"),
    ("warmup_epochs", "phases.0.warmup.epochs"),
    ("warmup_momentum", "phases.0.warmup.momentum"),
    ("warmup_bias_lr", "phases.0.warmup.bias_lr"),
    ("mosaic", "augment.mosaic"),
    ("close_mosaic", "augment.close_mosaic"),
    ("mixup", "augment.mixup"),
    ("cutmix", "augment.cutmix"),
    ("copy_paste", "augment.copy_paste"),
    ("degrees", "augment.degrees"),
    ("translate", "augment.translate"),
    ("scale", "augment.scale"),
    ("shear", "augment.shear"),
    ("perspective", "augment.perspective"),
    ("hsv_h", "augment.hsv_h"),
    ("hsv_s", "augment.hsv_s"),
    ("hsv_v", "augment.hsv_v"),
    ("flipud", "augment.flipud"),
    ("fliplr", "augment.fliplr"),
    ("conf", "--conf"),
    ("iou", "--iou"),
    ("max_det", "--max-det"),
    ("batch", "--batch-size"),
    ("time", "--time"),
];

/// Keys that are left out, and why.
const LEFT_OUT: [(&str, &str); 13] = [
    ("verbose", "what is printed does not depend on it"),
    ("plots", "plots are always written into the run directory"),
    ("save", "checkpoints and drawn boxes are always written"),
    ("save_period", "checkpoints: use --checkpoint-every"),
    ("exist_ok", "a run directory that exists goes on"),
    ("pretrained", "weights are given as model=FILE.pt"),
    ("deterministic", "runs are always deterministic on the CPU"),
    ("rect", "images are fitted into squares, so that programs are compiled once"),
    ("save_json", "use --coco FILE of `octant predict`"),
    ("show", "nothing is shown in windows; look at the files"),
    ("half", "use --precision bf16"),
    ("agnostic_nms", "boxes of different classes never suppress each other"),
    ("val", "validation: use --validate-every"),
];

const MODES: [&str; 6] = ["train", "val", "predict", "export", "track", "benchmark"];

fn translate(words: &[String]) -> Result<Translation> {
    let mut keys: Vec<(String, String)> = Vec::new();
    let (mut mode, mut task) = (None, "detect".to_string());
    for word in words {
        match word.split_once('=') {
            Some(("mode", value)) => mode = Some(value.to_string()),
            Some(("task", value)) => task = value.to_string(),
            Some((key, value)) => keys.push((key.trim().to_string(), value.trim().to_string())),
            None if MODES.contains(&word.as_str()) => mode = Some(word.clone()),
            None => task = word.clone(),
        }
    }
    if task != "detect" {
        bail!("only task=detect is understood here, not {task}; `octant recipes` lists recipes for other tasks");
    }
    let mode = mode.context("say what to do: train, val or predict")?;
    let mut result = Translation::default();
    let model = keys.iter().position(|(key, _)| key == "model").map(|at| keys.remove(at).1);
    match mode.as_str() {
        "train" => {
            result.train(model)?;
            result.directory(&mut keys);
        }
        "val" => result.validate(model)?,
        "predict" => result.predict(model, &mut keys)?,
        other => bail!("mode={other} has no counterpart; there are train, val and predict"),
    }
    for (key, value) in keys {
        result.key(&mode, &key, &value);
    }
    Ok(result)
}

impl Translation {
    fn add(&mut self, words: &[&str]) {
        self.command.extend(words.iter().map(|word| word.to_string()));
    }

    /// The network and, where the file is there, its weights.
    fn network(&mut self, model: &str) -> Result<String> {
        let path = Path::new(model);
        let stem = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        let entry = octant_zoo::find(&stem).with_context(|| {
            format!(
                "{model} does not say which network it holds; use `octant train detect --model NAME --weights {model}`"
            )
        })?;
        if path.is_file() && path.extension().is_some_and(|ending| ending != "yaml") {
            self.add(&["--weights", model]);
        } else if model.ends_with(".pt") {
            self.notes.push(format!(
                "there is no file {model} here, so weights are random; download it yourself (its license is {})",
                entry.license
            ));
        }
        Ok(entry.name.to_string())
    }

    fn train(&mut self, model: Option<String>) -> Result<()> {
        self.add(&["train", "detect"]);
        if let Some(model) = model {
            let name = self.network(&model)?;
            self.add(&["--model", &name]);
        }
        Ok(())
    }

    fn validate(&mut self, model: Option<String>) -> Result<()> {
        let model = model.context("val needs model=RUN, a run directory, or model=FILE.pt")?;
        match Path::new(&model).is_dir() {
            true => self.add(&["eval", &model]),
            false => {
                let stem = Path::new(&model).file_stem().unwrap_or_default().to_string_lossy().into_owned();
                let entry = octant_zoo::find(&stem)?;
                self.add(&["eval", &model, "--recipe", "detect", "--set", &format!("model={}", entry.name)]);
            }
        }
        Ok(())
    }

    fn predict(&mut self, model: Option<String>, keys: &mut Vec<(String, String)>) -> Result<()> {
        let model = model.context("predict needs model=RUN, a run directory, or model=FILE.pt")?;
        let at = keys.iter().position(|(key, _)| key == "source").context("predict needs source=IMAGES")?;
        let source = keys.remove(at).1;
        match Path::new(&model).is_dir() {
            true => self.add(&["predict", &model, &source]),
            false => {
                self.add(&["predict", &source]);
                let name = self.network(&model)?;
                self.add(&["--model", &name]);
            }
        }
        Ok(())
    }

    fn key(&mut self, mode: &str, key: &str, value: &str) {
        let is_true = value.eq_ignore_ascii_case("true");
        match (key, mode) {
            ("batch", "train") if value.parse().is_ok_and(|share: f64| share < 1.0) => {
                self.add(&["--batch-size", "auto"]);
            }
            ("batch", "predict") => {
                self.notes.push(format!("batch={value} is left out: images are asked about in eights"))
            }
            ("data", "train" | "val") => {
                self.add(&["--data", value]);
                self.set("data.bad_labels", "drop-image");
            }
            ("device", _) => self.device(value),
            ("optimizer", "train") => self.optimizer(value),
            ("resume", "train") => self.notes.push("resume: `octant train RUN` goes on with a run, bit for bit".into()),
            ("cos_lr", "train") if is_true => self.set("phases.0.schedule.kind", "timm-cosine"),
            ("amp", "train") if is_true => self.add(&["--precision", "bf16"]),
            ("cache", "train") if value != "False" => {
                self.add(&["--cache", if value == "disk" { "packed" } else { "ram" }]);
            }
            ("freeze", "train") => self.freeze(value),
            // Older versions took a bool, where true meant 0.5.
            ("multi_scale", "train") => {
                let share = if is_true { "0.5" } else { value };
                let share = if value.eq_ignore_ascii_case("false") { "0.0" } else { share };
                self.set("augment.multi_scale", share);
            }
            ("classes", "predict") => self.add(&["--only", value.trim_matches(['[', ']'])]),
            ("save_txt", "predict") if is_true => self.add(&["--labels"]),
            ("imgsz", "predict") => self.add(&["--size", value]),
            ("imgsz", "val") => self.set("image_size", value),
            ("save_json", "predict") if is_true => self.add(&["--coco", "predictions.json"]),
            _ => self.same_or_note(mode, key, value),
        }
    }

    fn same_or_note(&mut self, mode: &str, key: &str, value: &str) {
        let is_of_predict = ["conf", "iou", "max_det"].contains(&key);
        let fits = is_of_predict == (mode == "predict") || ["data", "batch"].contains(&key) && mode != "predict";
        match SAME.iter().find(|(known, _)| *known == key) {
            Some((_, flag)) if fits && flag.starts_with("--") => self.add(&[flag, value]),
            Some((_, key_path)) if fits => self.set(key_path, &value.to_lowercase()),
            _ => match LEFT_OUT.iter().find(|(known, _)| *known == key) {
                Some((_, why)) => self.notes.push(format!("{key}={value} is left out: {why}")),
                None => self.notes.push(format!("{key}={value} has no counterpart and is left out")),
            },
        }
    }

    /// Their optimizers by the names that they have here.
    fn optimizer(&mut self, value: &str) {
        let name = value.to_lowercase();
        match octant_nn::Optimizer::named(&name).is_some() || name == "auto" {
            true => self.add(&["--optimizer", &name]),
            false => self.notes.push(format!("optimizer={value} has no counterpart; the recipe chooses one")),
        }
    }

    /// Their project and name make up the run directory.
    fn directory(&mut self, keys: &mut Vec<(String, String)>) {
        let mut take = |wanted: &str| {
            let at = keys.iter().position(|(key, _)| key == wanted);
            at.map(|at| keys.remove(at).1)
        };
        let (project, name) = (take("project"), take("name"));
        if project.is_some() || name.is_some() {
            let (project, name) = (project.unwrap_or("runs".into()), name.unwrap_or("train".into()));
            self.add(&["--out", &format!("{project}/{name}")]);
        }
    }

    fn set(&mut self, key_path: &str, value: &str) {
        self.add(&["--set", &format!("{key_path}={value}")]);
    }

    fn device(&mut self, value: &str) {
        let numbers: Vec<&str> = value.split(',').filter(|part| !part.is_empty()).collect();
        match value {
            "cpu" | "mps" => self.add(&["--device", "cpu"]),
            _ if numbers.len() > 1 => self.add(&["--device", "cuda", "--cores", &numbers.len().to_string()]),
            _ => self.add(&["--device", "cuda"]),
        }
    }

    fn freeze(&mut self, value: &str) {
        let layers: Vec<String> = match value.parse::<usize>() {
            Ok(count) => (0..count).map(|layer| layer.to_string()).collect(),
            Err(_) => value.trim_matches(['[', ']']).split(',').map(|part| part.trim().to_string()).collect(),
        };
        let paths: Vec<String> = layers.iter().map(|layer| format!("\"model.{layer}\"")).collect();
        self.set("phases.0.freeze", &format!("[{}]", paths.join(", ")));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn translated(words: &str) -> (String, Vec<String>) {
        let words: Vec<String> = words.split(' ').map(str::to_string).collect();
        let result = translate(&words).unwrap();
        (result.command.join(" "), result.notes)
    }

    #[test]
    fn training_commands_are_understood() {
        let (command, notes) =
            translated("detect train data=coco8.yaml model=yolo11n.pt epochs=100 imgsz=640 batch=-1 device=0");
        assert_eq!(
            command,
            "train detect --model yolo11n --data coco8.yaml --set data.bad_labels=drop-image --epochs 100 --image-size 640 \
             --batch-size auto --device cuda"
        );
        assert_eq!(notes.len(), 1, "{notes:?}");
        assert!(notes[0].contains("AGPL-3.0"));
        let (command, notes) =
            translated("mode=train task=detect model=yolov8s.yaml mosaic=0.5 freeze=2 device=0,1 copy_paste=0.1");
        assert_eq!(
            command,
            "train detect --model yolov8s --set augment.mosaic=0.5 --set phases.0.freeze=[\"model.0\", \"model.1\"] \
             --device cuda --cores 2 --set augment.copy_paste=0.1"
        );
        assert!(notes.is_empty(), "{notes:?}");
        let (command, notes) = translated(
            "train model=yolo11n.yaml optimizer=AdamW lr0=0.002 lrf=0.1 warmup_epochs=1 batch=0.7 project=out name=a \
             multi_scale=0.5 multi_scale=True profile=True",
        );
        assert_eq!(
            command,
            "train detect --model yolo11n --out out/a --optimizer adamw --lr 0.002 --set \
             phases.0.schedule.min_share=0.1 --set phases.0.warmup.epochs=1 --batch-size auto --set augment.multi_scale=0.5 \
             --set augment.multi_scale=0.5"
        );
        assert_eq!(notes, ["profile=True has no counterpart and is left out"]);
    }

    #[test]
    fn predict_and_val_commands_are_understood() {
        let (command, _) = translated("predict model=yolo11n.yaml source=photos conf=0.4 classes=[0,2] save_txt=True");
        assert_eq!(command, "predict photos --model yolo11n --conf 0.4 --only 0,2 --labels");
        let (command, _) = translated("val model=yolo11n.pt data=coco8.yaml");
        assert_eq!(
            command,
            "eval yolo11n.pt --recipe detect --set model=yolo11n --data coco8.yaml --set data.bad_labels=drop-image"
        );
        assert!(translate(&["segment".into(), "train".into()]).is_err());
        assert!(translate(&["detect".into()]).is_err());
    }
}
