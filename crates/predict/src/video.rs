//! Videos, frame by frame, through an installed ffmpeg: nothing here decodes them itself.

use crate::error::{PredictError, Result, io, refusal, refuse};
use octant_imaging::Image;
use std::io::{BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

/// Endings of files that are taken for videos.
const ENDINGS: [&str; 9] = ["mp4", "mov", "avi", "mkv", "webm", "m4v", "mpg", "mpeg", "wmv"];

/// Whether a file's name ends like that of a video.
pub fn is_video(path: &Path) -> bool {
    let ending = path.extension().map(|ending| ending.to_string_lossy().to_lowercase()).unwrap_or_default();
    ENDINGS.contains(&ending.as_str())
}

fn ffmpeg() -> Command {
    let mut command = Command::new("ffmpeg");
    command.args(["-hide_banner", "-nostdin"]);
    command
}

fn spawned(command: &mut Command) -> Result<Child> {
    command.spawn().map_err(|error| -> PredictError {
        match error.kind() {
            std::io::ErrorKind::NotFound => {
                refusal!("videos are read through ffmpeg, and none is installed; install it, or give single images")
            }
            _ => refusal!("ffmpeg cannot be started: {error}"),
        }
    })
}

/// The frames of a video, in order.
pub struct Frames {
    child: Child,
    output: BufReader<ChildStdout>,
    path: PathBuf,
    /// Frames per second, as ffmpeg reports.
    pub rate: f64,
}

impl Frames {
    /// Starts ffmpeg on a video.
    pub fn open(path: &Path) -> Result<Frames> {
        if !path.is_file() {
            refuse!("there is no file {}", path.display());
        }
        let rate = rate(path)?;
        // Every frame comes as a PPM image, which says its own size.
        let mut command = ffmpeg();
        command.args(["-v", "error", "-i"]).arg(path).args(["-f", "image2pipe", "-c:v", "ppm", "-"]);
        let mut child = spawned(command.stdout(Stdio::piped()).stderr(Stdio::piped()))?;
        let output = child.stdout.take().ok_or_else(|| refusal!("ffmpeg has no output"))?;
        Ok(Frames { child, output: BufReader::new(output), path: path.to_path_buf(), rate })
    }

    /// The next frame; none after the last one. A video that ends in the middle of something is an error.
    pub fn next(&mut self) -> Result<Option<Image<u8>>> {
        let path = &self.path;
        let frame = read_ppm(&mut self.output).map_err(|error| refusal!("reading {}: {error}", path.display()))?;
        let Some(image) = frame else {
            let status = self.child.wait().map_err(io("read", path))?;
            let mut printed = String::new();
            if let Some(errors) = &mut self.child.stderr {
                errors.read_to_string(&mut printed).map_err(io("read", path))?;
            }
            if !status.success() {
                let last = printed.lines().last().unwrap_or("it gave no reason");
                refuse!("ffmpeg cannot read {}: {last}", self.path.display());
            }
            return Ok(None);
        };
        Ok(Some(image))
    }
}

impl Drop for Frames {
    fn drop(&mut self) {
        // Further frames are not needed; a child that has already ended is no error.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Frames per second from what ffmpeg prints about a file; 25 where it prints none.
fn rate(path: &Path) -> Result<f64> {
    let mut command = ffmpeg();
    let child = spawned(command.arg("-i").arg(path).stdout(Stdio::null()).stderr(Stdio::piped()))?;
    // Without an output file ffmpeg ends with an error after it has described its input.
    let printed = String::from_utf8_lossy(&child.wait_with_output().map_err(io("read", path))?.stderr).into_owned();
    Ok(stated_rate(&printed).unwrap_or(25.0))
}

fn stated_rate(text: &str) -> Option<f64> {
    let line = text.lines().find(|line| line.contains("Video:"))?;
    let part = line.split(',').find(|part| part.trim_end().ends_with("fps"))?;
    part.trim().strip_suffix("fps")?.trim().parse().ok().filter(|rate: &f64| *rate > 0.0 && rate.is_finite())
}

/// One binary PPM image from a stream; none at its end.
fn read_ppm(input: &mut impl Read) -> Result<Option<Image<u8>>> {
    let cut_off = |_: std::io::Error| refusal!("a frame is cut off");
    let mut byte = [0u8];
    let mut words: Vec<String> = vec![String::new()];
    // Magic, width, height and largest value, separated by white space; one such byte ends the header.
    while words.len() <= 4 {
        if input.read(&mut byte).map_err(cut_off)? == 0 {
            if words.len() == 1 && words[0].is_empty() {
                return Ok(None);
            }
            refuse!("a frame is cut off");
        }
        match byte[0].is_ascii_whitespace() {
            true if words.last().is_some_and(|word| !word.is_empty()) => words.push(String::new()),
            true => {}
            false => words.last_mut().into_iter().for_each(|word| word.push(char::from(byte[0]))),
        }
    }
    let side = |word: &str| word.parse::<usize>().ok().filter(|side| (1..=1 << 15).contains(side));
    let (Some(width), Some(height), "P6", "255") =
        (side(&words[1]), side(&words[2]), words[0].as_str(), words[3].as_str())
    else {
        refuse!("ffmpeg sent something that is no image");
    };
    let mut values = vec![0; width * height * 3];
    input.read_exact(&mut values).map_err(cut_off)?;
    Ok(Some(Image::new(height, width, 3, values)?))
}

/// Frames into a new video.
pub struct Encoder {
    child: Child,
    input: Option<ChildStdin>,
    path: PathBuf,
}

impl Encoder {
    /// Starts a video with so many frames per second.
    pub fn create(path: &Path, rate: f64) -> Result<Encoder> {
        let mut command = ffmpeg();
        command.args([
            "-v",
            "error",
            "-y",
            "-f",
            "image2pipe",
            "-c:v",
            "ppm",
            "-framerate",
            &rate.to_string(),
            "-i",
            "-",
        ]);
        // Most players want even sides and this arrangement of colors.
        command.args(["-vf", "pad=ceil(iw/2)*2:ceil(ih/2)*2", "-pix_fmt", "yuv420p"]).arg(path);
        let mut child = spawned(command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::piped()))?;
        let input = child.stdin.take();
        Ok(Encoder { child, input, path: path.to_path_buf() })
    }

    /// Adds a frame.
    pub fn write(&mut self, image: &Image<u8>) -> Result<()> {
        let input = self.input.as_mut().ok_or_else(|| refusal!("the video was finished already"))?;
        let written = writeln!(input, "P6 {} {} 255", image.width(), image.height());
        written.and_then(|()| input.write_all(image.values())).map_err(io("write", &self.path))
    }

    /// Waits until the video is complete.
    pub fn finish(mut self) -> Result<()> {
        drop(self.input.take());
        let output = self.child.wait_with_output().map_err(io("write", &self.path))?;
        if !output.status.success() {
            let printed = String::from_utf8_lossy(&output.stderr).into_owned();
            refuse!(
                "ffmpeg cannot write {}: {}",
                self.path.display(),
                printed.lines().last().unwrap_or("it gave no reason")
            );
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_are_read_one_after_the_other() {
        let mut stream = Vec::new();
        for shade in [1u8, 2] {
            stream.extend(b"P6\n2 1\n255\n");
            stream.extend([shade; 6]);
        }
        let mut input = &stream[..];
        let first = read_ppm(&mut input).unwrap().unwrap();
        assert_eq!((first.dims(), first.values()[0]), ([1, 2, 3], 1));
        assert_eq!(read_ppm(&mut input).unwrap().unwrap().values()[5], 2);
        assert!(read_ppm(&mut input).unwrap().is_none());
        assert!(read_ppm(&mut &stream[..14]).is_err(), "cut off");
        assert!(read_ppm(&mut &b"hello world this is no image "[..]).is_err());
    }

    #[test]
    fn the_rate_is_found_in_what_ffmpeg_says() {
        let text = "  Stream #0:0: Video: h264 (High), yuv420p, 320x240, 29.97 fps, 30 tbr, 15360 tbn";
        assert_eq!(stated_rate(text), Some(29.97));
        assert_eq!(stated_rate("Stream #0:0: Audio: aac"), None);
    }
}
