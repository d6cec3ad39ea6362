//! A test per source document: every command that it shows, as it shows it or as its guide translates it, on small
//! synthetic data of the same layout. `docs/guides/documents.md` lists which capability is tested where.

#![allow(clippy::unwrap_used, reason = "a test that cannot be set up has failed")]

use std::path::Path;
use std::process::Command;

/// Runs a command line in a folder; `octant` is this build. The exit code, and everything that was printed.
fn shell(folder: &Path, command: &str) -> (Option<i32>, String) {
    let binary = Path::new(env!("CARGO_BIN_EXE_octant")).parent().unwrap();
    let path = format!("{}:{}", binary.display(), std::env::var("PATH").unwrap());
    let mut shell = Command::new("sh");
    shell.current_dir(folder).env("PATH", path).env("OCTANT_CACHE", folder.join("cache")).args(["-c", command]);
    let output = shell.output().unwrap();
    let text = [output.stdout, output.stderr].map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).concat();
    assert!(!text.contains("panicked"), "{command}: {text}");
    (output.status.code(), text)
}

fn done(folder: &Path, command: &str) -> String {
    let (code, text) = shell(folder, command);
    assert_eq!(code, Some(0), "{command}: {text}");
    text
}

fn refused(folder: &Path, command: &str, sentence: &str) {
    let (code, text) = shell(folder, command);
    assert!(
        code.is_some_and(|code| code != 0) && text.contains(sentence),
        "{command} should print {sentence:?}: {text}"
    );
}

/// The values of a column of `metrics.csv`, empty ones left out.
fn column(run: &Path, name: &str) -> Vec<f64> {
    let text = std::fs::read_to_string(run.join("metrics.csv")).unwrap();
    let mut lines = text.lines();
    let index = lines.next().unwrap().split(',').position(|column| column == name).unwrap();
    lines.filter_map(|line| line.split(',').nth(index)?.parse().ok()).collect()
}

/// Whether this machine has a TPU, on which commands with `--use-tpu` would run instead of being refused.
fn has_tpu() -> bool {
    Path::new("/dev/accel0").exists() || Path::new("/dev/vfio/0").exists()
}

/// S0: MSHNet on infrared small targets.
#[test]
fn the_commands_of_the_mshnet_guide() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    done(at, "octant data synth irstd datasets/IRSTD-1k --count 10 --side 64 --seed 7");
    done(at, "octant data verify datasets/IRSTD-1k");
    let literal = "octant train mshnet-irstd --dataset-dir './datasets/IRSTD-1k' --batch-size 32 --epochs 400 --lr 0.05 \
                   --mode train --use-tpu";
    if !has_tpu() {
        refused(at, literal, "--device cpu");
        refused(at, &format!("{literal} --num-cores 8"), "--device cpu");
    }
    // The same on the processor, with a small network and the remedies against too little memory.
    let small = "octant train mshnet-irstd --dataset-dir './datasets/IRSTD-1k' --model mshnet-tiny --batch-size 4 --epochs 2 \
                 --warm-epoch 0 --lr 0.05 --mode train --num-workers 1 --threads 1 --device cpu";
    let text = done(at, &format!("{small} --base-size 32 --out smaller"));
    assert!(text.contains("val_iou"), "{text}");
    let text = done(at, &format!("{small} --base-size 64 --crop-size 32 --out run --dump dump"));
    assert!(text.contains("val_iou"), "{text}");
    assert!(std::fs::read_dir(at.join("dump")).unwrap().count() > 0, "the compiled programs");
    refused(at, &format!("{small} --base-size 60"), "multiples of 16, not 60×60");
    // Testing, and the weights as a file for another program.
    refused(at, &format!("{small} --mode test").replace("--mode train ", ""), "`octant eval RUN`");
    let text = done(at, "octant eval run --data datasets/IRSTD-1k --device cpu");
    assert!(text.contains("iou") && text.contains("pd"), "{text}");
    let weights = "run/checkpoints/best/model.safetensors";
    done(
        at,
        &format!(
            "octant eval {weights} --recipe mshnet-irstd --set model=mshnet-tiny --set base_size=64 --data datasets/IRSTD-1k --device cpu"
        ),
    );
    done(at, &format!("{small} --weight-path {weights} --base-size 32 --out next"));
    done(at, &format!("octant weights convert {weights} model.pth"));
    // What the document packs with tar and copies to a drive.
    done(at, "octant weights pack run tpu_weights.tar");
    refused(at, "octant train mshnet-irstd --out gs://bucket/weight", "gs://bucket/weight cannot be written to");
    done(at, "octant weights unpack tpu_weights.tar drive");
    assert_eq!(std::fs::read(at.join(weights)).unwrap(), std::fs::read(at.join("drive").join(weights)).unwrap());
    let mut archive = std::fs::read(at.join("tpu_weights.tar")).unwrap();
    let middle = archive.len() / 2;
    archive[middle] ^= 1;
    std::fs::write(at.join("damaged.tar"), archive).unwrap();
    let (code, text) = shell(at, "octant weights unpack damaged.tar elsewhere");
    assert_eq!(code, Some(1), "{text}");
}

/// S1: crop by a mask, resize and blur over frames, and how libraries differ.
#[test]
fn the_commands_of_the_image_processing_example() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    done(
        at,
        "octant data synth irstd clip --count 4 --side 64 --seed 3 && mkdir test_set && mv clip/images test_set/video && mv clip/masks test_set/mask",
    );
    done(at, "octant image crop test_set cropped --padding 8 --min-size 32 --aspect 1.5 --steady");
    done(
        at,
        "octant image resize cropped small --size 48x32 --semantics torchvision --device cpu --precision bf16 --runs 5",
    );
    done(at, "octant image blur small/video soft --sigma 2 --device cpu");
    let text = done(
        at,
        "octant image compare test_set/video --size 43x24 --white 1 --variants opencv:f32,torchvision:f32,torchvision:f32:cpu",
    );
    assert!(text.contains("max") && text.contains("median"), "{text}");
    assert_eq!(std::fs::read_dir(at.join("soft")).unwrap().count(), 4);
}

/// Files of Fashion-MNIST's form: every class is bright in two rows of its own.
fn idx(folder: &Path) {
    std::fs::create_dir_all(folder).unwrap();
    for (name, count) in [("train", 120u32), ("t10k", 40)] {
        let labels: Vec<u8> = (0..count).map(|index| (index % 10) as u8).collect();
        let pixels = labels.iter().flat_map(|&label| {
            let rows = label as usize * 56..label as usize * 56 + 56;
            (0..784).map(move |pixel| if rows.contains(&pixel) { 255 } else { 0 })
        });
        let images: Vec<u8> = [0, 0, 8, 3]
            .into_iter()
            .chain([count, 28, 28].into_iter().flat_map(u32::to_be_bytes))
            .chain(pixels)
            .collect();
        let head = [0, 0, 8, 1].into_iter().chain(count.to_be_bytes());
        std::fs::write(folder.join(format!("{name}-images-idx3-ubyte")), images).unwrap();
        std::fs::write(folder.join(format!("{name}-labels-idx1-ubyte")), head.chain(labels).collect::<Vec<u8>>())
            .unwrap();
    }
}

/// S2: `model.fit(epochs=5, steps_per_epoch=60, validation_freq=5)`.
#[test]
fn the_commands_of_the_fashion_mnist_chapter() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    idx(&at.join("data"));
    done(at, "octant devices");
    let text = done(
        at,
        "octant train fashion-mnist --data data --epochs 5 --steps-per-epoch 60 --validate-every 5 --batch-size 2 --lr 1e-3 \
         --device cpu --threads 1 --workers 1 --out run",
    );
    assert!(text.contains("epoch 5/5"), "{text}");
    let run = at.join("run");
    let (accuracy, validation) = (column(&run, "accuracy"), column(&run, "val_accuracy"));
    assert_eq!((accuracy.len(), validation.len()), (5, 1), "an accuracy per epoch, one validation");
    assert!(accuracy[4] > accuracy[0], "{accuracy:?}");
    let recipe = done(at, "octant recipes show fashion-mnist");
    assert!(recipe.contains("epsilon = 1e-7") && !recipe.contains("betas"), "Keras's Adam: {recipe}");
    assert!(done(at, "octant eval run --device cpu").contains("evaluated on 40 of "));
    // ResNet-50, whose figures the chapter quotes: the recipe of its setting.
    assert!(done(at, "octant recipes show imagenet-resnet50").contains("resnet50"));
}

/// S3: two phases of fine-tuning, with the registry and the data looked at before.
#[test]
fn the_commands_of_the_efficientnetv2_article() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    let text = done(at, "octant models");
    assert!(text.contains("tf_efficientnetv2_l"), "{text}");
    let longest = text.lines().map(|line| line.chars().count()).max();
    assert!(longest <= Some(100), "lines of `octant models` were of 220 columns: {longest:?}");
    let text = done(at, "octant models tf_efficientnetv2_l");
    assert!(text.contains("\n  preparation     bicubic, crop 1.000, mean 0.5, deviation 0.5\n"), "{text}");
    done(at, "octant data synth shapes D --count 40 --side 32 --seed 1");
    done(at, "octant data show D --rows 10 --columns 10 --cell 32");
    let flags = "--set data.kind=folder --data D --model tf_efficientnetv2-tiny --image-size 32 --batch-size 8 --burn-epochs 1 \
                 --epochs 2 --burn-lr 0.1 --lr 0.01 --min-lr 0.0005 --seed 1234 --validate-every 1 --device cpu --threads 1 \
                 --workers 1 --out run";
    // The pretrained weights are not here, and random ones are not taken without a word.
    refused(at, &format!("octant train cifar100-efficientnetv2 {flags}"), "--weights none");
    let text = done(at, &format!("octant train cifar100-efficientnetv2 {flags} --weights none --time 0s"));
    assert!(text.contains("while the frozen rest has random weights"), "{text}");
    let text = done(at, &format!("octant train cifar100-efficientnetv2 {flags} --weights none"));
    assert!(text.contains("from step 1"), "run again is resumed: {text}");
    let text = done(at, &format!("octant train cifar100-efficientnetv2 {flags} --weights none --fresh"));
    assert!(text.contains("frozen: all but the head (classifier)"), "{text}");
    assert!(text.contains("batch norms keep their statistics"), "{text}");
    assert!(at.join("run/checkpoints/last.bak").exists(), "the previous checkpoint is kept");
    assert_eq!(column(&at.join("run"), "val_accuracy").len(), 3, "burn-in and training are counted together");
    done(at, "octant events show run --tag '*'");
}

/// S4: regression, metrics of images, event files, devices, YOLO and networks with several updates.
#[test]
fn the_commands_of_the_notes() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    done(at, "octant data synth regression D --count 20 --side 32 --seed 2");
    let regress = "octant train regression-efficientnetv2 --data D --model tf_efficientnetv2-tiny --weights none --image-size 32 \
                   --batch-size 8 --epochs 3 --patience 50 --device cpu --threads 1 --workers 1";
    let text = done(at, &format!("{regress} --out reg"));
    assert!(text.contains("val_mae") && text.contains("val_rmse"), "{text}");
    refused(at, &regress.replace(" --weights none", ""), "--weights none");
    // Metrics of images with an explicit range.
    let metrics = done(at, "cp -r D/images again && octant eval D/images --against again --range 255");
    assert!(metrics.contains("psnr") && metrics.contains("ssim"), "{metrics}");
    // Steps 1 < step <= 3 of an event file, rewritten.
    done(at, "octant events filter reg --steps '1<step<=3' --out part");
    done(at, "octant events show part --tag loss");
    done(at, "octant devices");
    done(at, "octant weights pack reg best_my_model.tar");
    // A generator and a discriminator with different numbers of updates.
    let text = done(
        at,
        "octant train demo-pix2pix --set data.train=16 --set data.test=4 --set data.side=64 --epochs 1 --set \
         gan.discriminator_updates=2 --set gan.generator_updates=1 --set 'batch_schedule=[[0, 4]]' --device cpu --threads 1 --workers 1 \
         --out gan",
    );
    assert!(text.contains("d_loss"), "{text}");
}

/// S4: the words of the sections about YOLO.
#[test]
fn the_commands_of_the_notes_about_yolo() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    done(at, "octant data synth scenes S --count 10 --side 64 --seed 4");
    // `YOLO('yolo11n.pt').train(data='your_dataset.yaml', epochs=100, device='tpu')`
    refused(
        at,
        "octant yolo train model=yolo11n.pt data=S/data.yaml epochs=100 device=tpu",
        "there is no file yolo11n.pt",
    );
    let text = done(at, "octant yolo train model=yolo11n.yaml data=S/data.yaml epochs=100 device=tpu --dry-run");
    assert!(
        text.contains("octant train detect --model yolo11n --data S/data.yaml --set data.bad_labels=drop-image --epochs 100 --device tpu"),
        "{text}"
    );
    std::fs::write(
        at.join("hyp.scratch-high.yaml"),
        "lr0: 0.01\nlrf: 0.1\nwarmup_epochs: 1.0\nmomentum: 0.937\nweight_decay: 0.0005\nmosaic: 0.0\n",
    )
    .unwrap();
    let train = "octant yolo detect train model=yolo11-tiny.yaml data=S/data.yaml epochs=2 imgsz=64 batch=4 device=cpu workers=1 \
                 optimizer=SGD cos_lr=True cfg=hyp.scratch-high.yaml amp=False project=out name=first";
    done(at, &format!("{train} time=0.0000001"));
    let text = done(at, "octant yolo train model=out/first resume=True");
    assert!(text.contains("from step 1"), "chained sessions: {text}");
    let text = done(at, "octant yolo val model=out/first data=S/data.yaml device=cpu");
    assert!(text.contains("mAP50-95"), "{text}");
    done(at, "octant yolo predict model=out/first source=S/images/val conf=0.001 device=cpu save_txt=True name=found");
    assert!(at.join("predictions/found/labels/00008.txt").is_file(), "a label file in the folder that was named");
    // 16 → 64 images: rate and decay times four, a longer warm-up.
    let scaled = "octant train detect --model yolo11-tiny --data S/data.yaml --image-size 64 --batch-size 128 --lr 0.01 --optimizer sgd \
                  --scale-lr --epochs 10 --device cpu --threads 1 --workers 1 --time 0s";
    let text = done(at, scaled);
    assert!(text.contains("× 2 for 128 images per update instead of 64: learning rate 1e-2 → 2e-2"), "{text}");
    assert!(text.contains("weight decay 5e-4 → 1e-3, warm-up 3 → 4.2 epochs"), "{text}");
    assert!(done(at, "octant yolo help").contains("warmup_bias_lr"));
}
