//! One small recipe per task, and a value other than the default for every key.

use octant_data::decode::DecodeOptions;
use octant_data::readers::{Split, open, write_webdataset};
use octant_data::write_png_u8;
use octant_imaging::Image;
use std::path::Path;

/// A change of one key, where others are given.
pub struct Row {
    /// What the key needs to have a meaning.
    pub given: &'static [&'static str],
    /// The key and its value.
    pub change: &'static str,
    /// The tasks that it is tried for.
    pub tasks: &'static [&'static str],
}

/// Those that share neither task nor data; masks, keypoints and rotated boxes are found as boxes are.
const GENERAL: &[&str] =
    &["classify", "multilabel", "segment", "detect", "regress", "pix2pix", "cyclegan", "restore", "autoencode"];

const fn any(change: &'static str) -> Row {
    Row { given: &[], change, tasks: GENERAL }
}

/// A key of detectors, for those that find more than boxes.
const fn detailed(change: &'static str) -> Row {
    Row { given: &[], change, tasks: &["detect", "instance", "pose", "obb"] }
}

const fn given(given: &'static [&'static str], change: &'static str) -> Row {
    Row { given, change, tasks: GENERAL }
}

/// A task with one network and one with several, with data that is generated and read from files.
const fn some(change: &'static str) -> Row {
    Row { given: &[], change, tasks: &["classify", "cyclegan"] }
}

/// The loop around the steps and what it reads are the same for all tasks.
const fn once(given: &'static [&'static str], change: &'static str) -> Row {
    Row { given, change, tasks: &["classify"] }
}

/// Keys that a run without the command line does not read, and where they are tried.
pub const ELSEWHERE: [(&str, &str); 3] = [
    ("about", "what `octant recipes` says about a built-in one; a run has nothing to do with it"),
    ("workers", "the threads of loaders are counted"),
    ("device", "the code that opens the device reads it: `train --device` in crates/cli/tests/every_argument.txt"),
];

/// Keys whose other values end the run here: refusing them shows that they are read. A network has one factor that
/// `degrade.shrink` may be, keypoints are those of the data, and what is skipped is fatal otherwise, and no
/// object store is here.
pub const READ: [&str; 6] =
    ["checkpoint_store", "data.image_key", "data.label_key", "degrade.shrink", "keypoints", "on_corrupt"];

macro_rules! base {
    ($task:literal, $model:literal, $data:literal, $rest:literal) => {
        (
            $task,
            concat!(
                "name = 'base'\ntask = '",
                $task,
                "'\nmodel = '",
                $model,
                "'\nbatch_size = 4\n",
                $rest,
                "\n[data]\n",
                $data,
                "\n[[phases]]\nname = 'first'\nepochs = 2\nschedule = { lr = 1e-3 }\n",
            ),
        )
    };
}

/// Every task, as small as it can be.
pub const BASES: [(&str, &str); 12] = [
    base!("classify", "resnet-tiny", "kind = 'shapes'\ntrain = 14\ntest = 4\nside = 32", ""),
    base!("multilabel", "resnet-tiny", "kind = 'shape-sets'\ntrain = 14\ntest = 4\nside = 32", ""),
    base!("segment", "mshnet-tiny", "kind = 'infrared'\ntrain = 14\ntest = 4\nside = 32", ""),
    base!(
        "detect",
        "yolo11-tiny",
        "kind = 'scenes'\ntrain = 14\ntest = 4\nside = 64",
        "image_size = 64\neval_transform = 'detect'"
    ),
    base!(
        "instance",
        "yolo11-tiny-seg",
        "kind = 'instances'\ntrain = 14\ntest = 4\nside = 64",
        "image_size = 64\neval_transform = 'detect'"
    ),
    base!(
        "pose",
        "yolo11-tiny-pose",
        "kind = 'figures'\ntrain = 14\ntest = 4\nside = 64",
        "image_size = 64\neval_transform = 'detect'"
    ),
    base!(
        "obb",
        "yolo11-tiny-obb",
        "kind = 'vehicles'\ntrain = 14\ntest = 4\nside = 64",
        "image_size = 64\neval_transform = 'detect'"
    ),
    base!("regress", "resnet-tiny", "kind = 'discs'\ntrain = 14\ntest = 4\nside = 32", ""),
    base!("pix2pix", "unet_generator-tiny", "kind = 'outlines'\ntrain = 14\ntest = 4\nside = 32", ""),
    base!("cyclegan", "resnet_generator-tiny", "kind = 'unpaired'\ndir = 'DATA/unpaired'", ""),
    base!("restore", "nafnet-tiny", "kind = 'paintings'\ntrain = 14\ntest = 4\nside = 32", ""),
    base!("autoencode", "autoencoder-tiny", "kind = 'paintings'\ntrain = 14\ntest = 4\nside = 32", ""),
];

const CLASSES: &[&str] = &["data.kind='folder'", "data.dir='DATA/classes'"];
const SHARDS: &[&str] = &["data.kind='folder'", "data.dir='DATA/shards'"];
const ARCHIVES: &[&str] = &["data.kind='folder'", "data.dir='DATA/shards'", "sampling='archives'", "data.streams=2"];
const LABELS: &[&str] = &["data.kind='labels'", "data.dir='DATA/labels'"];
const MASKS: &[&str] = &["data.kind='masks'", "data.dir='DATA/masks'"];
const BOXES: &[&str] = &["data.kind='boxes'", "data.dir='DATA/boxes/data.yaml'"];
const TWO: &[&str] = &["phases=[{epochs=2,schedule={lr=1e-3}},{name='second',epochs=1,schedule={lr=1e-3}}]"];
const VIT: &[&str] = &["model='vit-test'"];
const SGD: &[&str] = &["phases.0.optimizer='sgd'"];
const NESTEROV: &[&str] = &["phases.0.optimizer='sgd'", "phases.0.momentum=0.9"];
const WARMUP: &[&str] = &["phases.0.optimizer='sgd'", "phases.0.momentum=0.9", "phases.0.warmup.steps=4"];
const GROUP: &[&str] = &["phases.0.groups=[{under=['fc'],lr_scale=0.5}]", "phases.0.weight_decay=0.1"];
const MIX: &[&str] = &["phases.0.mix.mixup=0.4"];
const ADAPTERS: &[&str] = &["model='vit-test'", "adapters.rank=2"];
const COSINE: &[&str] = &["phases.0.schedule.kind='cosine'", "phases.0.schedule.per='step'"];
const WARM_COSINE: &[&str] = &[
    "phases.0.schedule.kind='warmup-cosine'",
    "phases.0.schedule.per='step'",
    "phases.0.schedule.total=3",
    "phases.0.schedule.warmup=1",
];
const TIMM_COSINE: &[&str] =
    &["phases.0.schedule.kind='timm-cosine'", "phases.0.schedule.per='step'", "phases.0.schedule.warmup=3"];
const STEP: &[&str] = &["phases.0.schedule.kind='step'", "phases.0.schedule.every=1"];
const MULTI_STEP: &[&str] = &["phases.0.schedule.kind='multi-step'", "phases.0.schedule.milestones=[1]"];
const POLYNOMIAL: &[&str] = &["phases.0.schedule.kind='polynomial'"];
const PLATEAU: &[&str] = &[
    "best='val_loss'",
    "phases.0.epochs=6",
    "phases.0.schedule.kind='plateau'",
    "phases.0.schedule.patience=1",
    "phases.0.schedule.threshold=0.5",
];
const RESTORE: &[&str] = &["image_size=32", "phases.0.transform='restore'", "eval_transform='restore'"];
const MOSAIC: &[&str] = &["augment.mosaic=1.0", "augment.close_mosaic=1"];
/// Transforms that read sizes.
const SIZED: &[&str] = &["base_size=32", "crop_size=32", "phases.0.transform='irstd'", "eval_transform='irstd'"];

/// Every key.
pub const ROWS: &[Row] = &[
    once(&[], "name='other'"),
    once(&[], "task='regress'"),
    Row { given: &[], change: "task='restore'", tasks: &["pix2pix"] },
    any("model='resnet-bottleneck-tiny'"),
    any("classes=11"),
    once(&[], "weights='DATA/weights.safetensors'"),
    once(&["weights='DATA/part.safetensors'", "partial_weights=true"], "partial_weights=false"),
    once(&[], "partial_weights=true"),
    some("cores=2"),
    once(&[], "checkpoint_store='nowhere'"),
    once(&[], "mlflow='http://localhost:9'"),
    once(&[], "wandb='project'"),
    once(CLASSES, "cache='packed'"),
    some("cache='ram'"),
    once(&["cache='ram'"], "cache_mb=1"),
    once(&[], "cache_mb=1"),
    any("loss='mae'"),
    any("loss='dice'"),
    any("loss='hinge'"),
    any("loss='ssim'"),
    any("label_smoothing=0.1"),
    Row { given: MASKS, change: "label_smoothing=0.1", tasks: &["segment"] },
    any("class_weights=[1.0]"),
    Row { given: &[], change: "class_weights=[1.0, 2.0, 0.5, 3.0]", tasks: &["classify", "multilabel"] },
    Row { given: &[], change: "class_weights='balanced'", tasks: &["classify", "multilabel", "segment"] },
    any("sampling='balanced'"),
    any("sampling='archives'"),
    given(SHARDS, "sampling='archives'"),
    once(ARCHIVES, "data.streams=1"),
    once(ARCHIVES, "data.window=1"),
    once(SHARDS, "data.streams=1"),
    some("data.window=1"),
    any("thresholds=[0.3]"),
    any("loss='focal'"),
    Row { given: MASKS, change: "class_weights=[1.0, 2.0, 0.5]", tasks: &["segment"] },
    Row { given: MASKS, change: "loss='cross-entropy + 0.5 * dice'", tasks: &["segment"] },
    any("dropout=0.3"),
    once(VIT, "dropout=0.3"),
    any("stochastic_depth=0.3"),
    once(VIT, "stochastic_depth=0.3"),
    any("image_size=96"),
    once(
        &[
            "data.kind='folder'",
            "data.dir='DATA/classes'",
            "phases.0.transform='finetune'",
            "eval_transform='finetune'",
        ],
        "image_size=64",
    ),
    any("base_size=64"),
    any("crop_size=64"),
    given(SIZED, "base_size=64"),
    given(SIZED, "crop_size=16"),
    some("normalize='none'"),
    any("eval_transform=[{op='flip-horizontally',p=1.0}]"),
    once(&[], "best='val_loss'"),
    once(&["best='val_loss'", "patience=1"], "best_mode='max'"),
    some("reference_batch=8"),
    once(&["reference_batch=8"], "scale_lr=true"),
    once(&[], "scale_lr=true"),
    any("max_boxes=1"),
    any("gains.boxes=3.0"),
    any("gains.classes=3.0"),
    any("gains.distances=3.0"),
    detailed("gains.masks=3.0"),
    detailed("gains.keypoints=3.0"),
    detailed("gains.visibility=3.0"),
    detailed("gains.angles=3.0"),
    detailed("keypoints=[4, 3]"),
    any("augment.mosaic=0.0"),
    given(&["augment.mosaic=1.0"], "augment.close_mosaic=1"),
    given(&["augment.mosaic=0.0"], "augment.close_mosaic=1"),
    given(MOSAIC, "augment.mixup=1.0"),
    given(MOSAIC, "augment.cutmix=1.0"),
    given(MOSAIC, "augment.copy_paste=1.0"),
    given(MOSAIC, "augment.degrees=30.0"),
    given(MOSAIC, "augment.translate=0.4"),
    given(MOSAIC, "augment.scale=0.9"),
    given(MOSAIC, "augment.multi_scale=0.5"),
    given(MOSAIC, "augment.shear=20.0"),
    given(MOSAIC, "augment.perspective=0.001"),
    given(MOSAIC, "augment.hsv_h=0.5"),
    given(MOSAIC, "augment.hsv_s=0.1"),
    given(MOSAIC, "augment.hsv_v=0.1"),
    given(MOSAIC, "augment.flipud=1.0"),
    given(MOSAIC, "augment.fliplr=0.0"),
    any("gan.layers=1"),
    any("gan.width=8"),
    Row { given: &[], change: "gan.norm='instance'", tasks: &["pix2pix", "restore"] },
    Row { given: &[], change: "gan.norm='batch'", tasks: &["cyclegan", "classify"] },
    any("gan.l1=5.0"),
    any("gan.image_statistics=true"),
    any("gan.cycle=5.0"),
    any("gan.identity=0.0"),
    any("gan.pool=0"),
    any("gan.generator_updates=2"),
    any("gan.discriminator_updates=2"),
    any("degrade.noise=[10.0, 20.0]"),
    given(RESTORE, "degrade.noise=[10.0, 20.0]"),
    any("degrade.shrink=2"),
    given(&["model='edsr-tiny'", "degrade.holes=1"], "degrade.shrink=2"),
    any("degrade.holes=2"),
    given(RESTORE, "degrade.holes=2"),
    some("data.kind='glyphs'"),
    Row { given: &[], change: "data.kind='paintings'", tasks: &["pix2pix"] },
    some("data.train=20"),
    some("data.test=6"),
    any("data.side=96"),
    given(CLASSES, "data.dir='DATA/others'"),
    once(CLASSES, "data.validate_on='test'"),
    Row { given: &[], change: "data.validate_on='test'", tasks: &["classify", "segment", "detect", "restore"] },
    given(BOXES, "data.only_classes=[0]"),
    some("data.only_classes=[0]"),
    given(BOXES, "data.single_class=true"),
    some("data.single_class=true"),
    given(BOXES, "data.bad_labels='drop-image'"),
    some("data.bad_labels='drop-image'"),
    given(&["data.kind='pairs'", "data.dir='DATA/pairs'"], "data.swap=true"),
    some("data.swap=true"),
    any("data.ignore=3"),
    Row { given: MASKS, change: "data.ignore=2", tasks: &["segment"] },
    any("data.from_one=true"),
    Row { given: MASKS, change: "data.from_one=true", tasks: &["segment"] },
    Row { given: LABELS, change: "data.separator=';'", tasks: &["multilabel"] },
    Row { given: LABELS, change: "data.columns=['other']", tasks: &["multilabel"] },
    some("data.separator=';'"),
    given(&["data.kind='table'", "data.dir='DATA/table'"], "data.columns=['second']"),
    some("data.columns=['second']"),
    some("data.image_key='pixels'"),
    some("data.label_key='kind'"),
    some("batch_size=2"),
    some("batch_schedule=[[1, 2]]"),
    some("precision='bf16'"),
    any("batch_groups=2"),
    any("recompute=true"),
    some("shard_optimizer=true"),
    once(&["cores=2"], "shard_optimizer=true"),
    some("fsdp=2"),
    some("spatial=2"),
    once(&["cores=2"], "spatial=2"),
    once(&["cores=2"], "fsdp=2"),
    once(&["cores=2", "fsdp=2"], "fsdp_from=1"),
    once(&[], "fsdp_from=1"),
    given(VIT, "adapters.rank=2"),
    any("adapters.rank=2"),
    given(ADAPTERS, "adapters.alpha=3.0"),
    given(ADAPTERS, "adapters.targets=['in_proj']"),
    some("on_nan='skip'"),
    some("seed=5"),
    some("steps_per_epoch=1"),
    some("last_batch='pad'"),
    once(&["data.kind='folder'", "data.dir='DATA/corrupt'", "on_corrupt='skip'"], "on_corrupt='fatal'"),
    once(&["data.kind='folder'", "data.dir='DATA/corrupt'"], "on_corrupt='skip'"),
    some("validate_every=2"),
    once(&["phases.0.epochs=6"], "patience=1"),
    once(&[], "checkpoint_every=2"),
    once(&[], "grace=0.000001"),
    any("samples=1"),
    once(&[], "histograms=1"),
    some("gallery=1"),
    once(&[], "phases.0.name='other'"),
    once(&[], "phases.0.epochs=3"),
    any("phases.0.warm_up=true"),
    once(&[], "phases.0.auto='optimizer'"),
    any("phases.0.transform=[{op='flip-horizontally',p=1.0}]"),
    some("phases.0.train='head'"),
    any("phases.0.frozen_statistics=true"),
    once(VIT, "phases.0.frozen_statistics=true"),
    some("phases.0.weight_decay=0.1"),
    some("phases.0.decay_all=true"),
    once(&["phases.0.weight_decay=0.1"], "phases.0.decay_all=true"),
    any("phases.0.layer_decay=0.5"),
    once(&[], "phases.0.groups=[{under=['fc'],lr_scale=0.5}]"),
    once(&[], "phases.0.groups=[{under=['fc']}]"),
    once(GROUP, "phases.0.groups.0.under=['layer1']"),
    once(GROUP, "phases.0.groups.0.lr_scale=0.2"),
    once(GROUP, "phases.0.groups.0.weight_decay=0.2"),
    some("phases.0.ema=0.9"),
    once(&["phases.0.ema=0.9"], "phases.0.ema_ramp=5.0"),
    once(&[], "phases.0.ema_ramp=5.0"),
    once(&[], "phases.0.freeze=['layer1']"),
    some("phases.0.update_images=8"),
    given(WARMUP, "phases.0.warmup.steps=3"),
    once(SGD, "phases.0.warmup.epochs=1.0"),
    once(WARMUP, "phases.0.warmup.epochs=1.0"),
    once(WARMUP, "phases.0.warmup.bias_lr=0.1"),
    once(WARMUP, "phases.0.warmup.momentum=0.5"),
    once(&["phases.0.warmup.steps=4"], "phases.0.warmup.momentum=0.5"),
    once(&[], "phases.0.warmup.bias_lr=0.1"),
    some("phases.0.accumulate=2"),
    once(TWO, "phases.1.keep_optimizer=true"),
    some("phases.0.keep_optimizer=true"),
    any("phases.0.mix.mixup=0.4"),
    any("phases.0.mix.cutmix=0.4"),
    once(MIX, "phases.0.mix.p=0.2"),
    once(&[], "phases.0.mix.p=0.2"),
    once(&[], "phases.0.optimizer='lion'"),
    once(SGD, "phases.0.momentum=0.9"),
    once(&[], "phases.0.momentum=0.9"),
    once(NESTEROV, "phases.0.nesterov=true"),
    once(SGD, "phases.0.nesterov=true"),
    once(&[], "phases.0.betas=[0.5, 0.9]"),
    once(&[], "phases.0.epsilon=1e-3"),
    some("phases.0.clip_norm=1.0"),
    once(&[], "phases.0.clip_value=1.0"),
    once(&[], "phases.0.schedule.kind='cosine'"),
    once(&[], "phases.0.schedule.lr=0.5"),
    once(COSINE, "phases.0.schedule.min_lr=1e-4"),
    once(&[], "phases.0.schedule.min_lr=1e-4"),
    once(COSINE, "phases.0.schedule.min_share=0.1"),
    once(&[], "phases.0.schedule.min_share=0.1"),
    once(&["phases.0.schedule.kind='cosine'"], "phases.0.schedule.per='step'"),
    once(&[], "phases.0.schedule.per='step'"),
    once(TIMM_COSINE, "phases.0.schedule.warmup=2"),
    once(TIMM_COSINE, "phases.0.schedule.warmup_lr=1e-5"),
    once(&["phases.0.schedule.kind='timm-cosine'"], "phases.0.schedule.warmup_lr=1e-5"),
    once(COSINE, "phases.0.schedule.total=50"),
    once(STEP, "phases.0.schedule.every=2"),
    once(MULTI_STEP, "phases.0.schedule.milestones=[0]"),
    once(STEP, "phases.0.schedule.factor=0.5"),
    once(POLYNOMIAL, "phases.0.schedule.power=2.0"),
    once(PLATEAU, "phases.0.schedule.patience=3"),
    once(PLATEAU, "phases.0.schedule.threshold=0.0"),
    once(PLATEAU, "phases.0.schedule.cooldown=2"),
    once(PLATEAU, "phases.0.schedule.per='step'"),
    once(WARM_COSINE, "phases.0.schedule.stretch=2.0"),
    once(WARM_COSINE, "phases.0.schedule.decay=0.5"),
];

/// An image of 32 pixels that differs from the others.
fn image(path: &Path, number: usize, width: usize) {
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    let pixel = |row: usize, column: usize, channel: usize| {
        (row * 7 + column * (3 + number % 16) + channel * 50 + number * 31) as u8
    };
    write_png_u8(path, &Image::from_fn(32, width, 3, pixel)).unwrap();
}

/// The files that rows name as `DATA`.
pub fn write_data(folder: &Path) {
    for set in ["classes", "others", "corrupt"] {
        for (part, count) in [("train", 8), ("val", 4), ("test", 5)] {
            for number in 0..count {
                for (offset, class) in ["left", "right"].into_iter().enumerate() {
                    let seed = number * 2 + offset + set.len() + part.len() * 10;
                    image(&folder.join(format!("{set}/{part}/{class}/{number}.png")), seed, 32);
                }
            }
        }
    }
    std::fs::write(folder.join("corrupt/train/left/0.png"), b"no image").unwrap();
    for (part, split) in [("train", Split::Train), ("val", Split::Val)] {
        let set = open(folder.join("classes"), split, DecodeOptions::default()).unwrap();
        write_webdataset(&*set, &folder.join("shards"), part, 3).unwrap();
    }
    for number in 0..9 {
        for domain in ["trainA", "trainB", "testA", "testB"] {
            let seed = number + domain.bytes().map(usize::from).sum::<usize>() % 50;
            image(&folder.join(format!("unpaired/{domain}/{number}.png")), seed, 32);
        }
        for part in ["train", "test"] {
            image(&folder.join(format!("pairs/{part}/{number}.png")), number + part.len(), 64);
            image(&folder.join(format!("table/{part}{number}.png")), number + part.len(), 32);
            image(&folder.join(format!("labels/{part}{number}.png")), number + part.len(), 32);
            image(&folder.join(format!("masks/images/{part}/{number}.png")), number + part.len(), 32);
            let mask = Image::from_fn(32, 32, 1, |row, column, _| ((row / 8 + column / 16 + number) % 3) as u8);
            let path = folder.join(format!("masks/masks/{part}/{number}.png"));
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            write_png_u8(path, &mask).unwrap();
            image(&folder.join(format!("boxes/images/{part}/{number}.png")), number + part.len(), 32);
            let bad = if number == 0 { "0 0.5 0.5 7.0 0.5\n" } else { "" };
            let labels = format!("{bad}{} 0.4 0.5 0.3 0.5\n1 0.6 0.6 0.2 0.3\n", number % 2);
            let path = folder.join(format!("boxes/labels/{part}/{number}.txt"));
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, labels).unwrap();
        }
    }
    for part in ["train", "test"] {
        let row = |number: usize| format!("{part}{number}.png,{}.5,{number}.25\n", number * 2);
        let table = (0..8).map(row).collect::<String>();
        let labels = |number: usize| format!("{part}{number}.png,a|b;{},{}\n", ['c', 'd'][number % 2], number % 2);
        let labels = (0..8).map(labels).collect::<String>();
        std::fs::write(folder.join(format!("labels/{part}.csv")), format!("file,labels,other\n{labels}")).unwrap();
        std::fs::write(folder.join(format!("table/{part}.csv")), format!("file,first,second\n{table}")).unwrap();
    }
    let yaml = "path: .\ntrain: images/train\nval: images/test\nnames: [round, square]\n";
    std::fs::write(folder.join("boxes/data.yaml"), yaml).unwrap();
    write_weights(folder);
}

/// Weights of the classifier, and a part of them.
fn write_weights(folder: &Path) {
    let model = octant_zoo::build("resnet-tiny", Some(4)).unwrap();
    let (specs, _) = octant_zoo::describe(&*model, [32, 32, 3]).unwrap();
    let values: Vec<_> = specs.iter().map(|spec| spec.initial(9)).collect();
    let tensors = octant_zoo::weights::export(&specs, &values, 1);
    for (name, count) in [("weights", tensors.len()), ("part", tensors.len() / 2)] {
        let named = tensors[..count].iter().map(|(name, tensor)| (name.as_str(), tensor));
        let path = folder.join(format!("{name}.safetensors"));
        octant_archive::save_safetensors(&path, named, &[]).unwrap();
    }
}
