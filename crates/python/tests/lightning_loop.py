"""PyTorch Lightning trains over our loader, and its checkpoints resume in the middle of an epoch."""

import tempfile
import unittest
import warnings
from pathlib import Path

import octant
import pytorch_lightning
import torch

# Neither divides an epoch of six batches.
EVERY = 4


class Network(pytorch_lightning.LightningModule):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(28 * 28, 10)
        self.seen, self.losses = [], []

    def training_step(self, batch, number):
        self.seen.append((batch.epoch, batch.index, number, batch.indices))
        images = torch.from_dlpack(batch.images).flatten(1).float().div(255)
        loss = torch.nn.functional.cross_entropy(self.layer(images), torch.from_dlpack(batch.classes).long())
        self.losses.append(loss.item())
        return loss

    def validation_step(self, batch, number):
        images = torch.from_dlpack(batch.images).flatten(1).float().div(255)
        loss = torch.nn.functional.cross_entropy(self.layer(images), torch.from_dlpack(batch.classes).long())
        self.log("val_loss", loss, batch_size=batch.valid)

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters(), 1e-3)


def loader(part="train"):
    return octant.Loader("glyphs", batch=8, seed=4, part=part, transform="none", workers=1, **{"data.train": 52, "data.test": 12})


def trained(folder, checkpoint=None):
    """Two epochs, with a checkpoint every few steps."""
    torch.manual_seed(0)
    network = Network()
    kept = pytorch_lightning.callbacks.ModelCheckpoint(folder, "{step}", every_n_train_steps=EVERY, save_top_k=-1)
    trainer = pytorch_lightning.Trainer(
        accelerator="cpu", devices=1, max_epochs=2, logger=False, callbacks=[kept], enable_progress_bar=False,
        enable_model_summary=False, default_root_dir=folder,
    )  # fmt: skip
    with warnings.catch_warnings():
        # That the loader has few workers: it has no processes at all, and its threads are its own.
        warnings.filterwarnings("ignore", ".*does not have many workers.*")
        trainer.fit(network, loader(), loader("val"), ckpt_path=checkpoint)
    return network, trainer


class Lightning(unittest.TestCase):
    def test_two_epochs_are_trained_and_resume_in_the_middle(self):
        with tempfile.TemporaryDirectory() as folder:
            whole, trainer = trained(folder)
            self.assertEqual([seen[:3] for seen in whole.seen], [(epoch, index, index) for epoch in (0, 1) for index in range(6)])
            for epoch in range(2):
                indices = [index for seen in whole.seen if seen[0] == epoch for index in seen[3]]
                self.assertEqual(len(set(indices)), 48)
            self.assertLess(sum(whole.losses[6:]), sum(whole.losses[:6]))
            self.assertIn("val_loss", trainer.callback_metrics)
            for steps in [EVERY, 2 * EVERY]:
                with self.subTest(steps):
                    resumed, trainer = trained(Path(folder, "resumed"), Path(folder, f"step={steps}.ckpt"))
                    self.assertEqual(resumed.seen, whole.seen[steps:])
                    self.assertEqual(resumed.losses, whole.losses[steps:])
                    self.assertEqual(trainer.global_step, 12)
                    for name, weight in whole.state_dict().items():
                        self.assertTrue(torch.equal(resumed.state_dict()[name], weight), name)


if __name__ == "__main__":
    unittest.main()
