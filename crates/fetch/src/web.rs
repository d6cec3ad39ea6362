//! Files and folders on web servers. There is no protocol for folders, but servers that offer them return a page of
//! links to what they hold.

use crate::http::{Failure, Remote, header, version};
use crate::{DownloadCache, FetchError, Item, ProgressCallback, listing, mirroring};
use std::path::PathBuf;

/// Folders in folders are followed so far; deeper ones are likely to be a page that links to itself.
const DEEPEST: usize = 8;

/// The file or the folder at an address, mirrored into the cache.
pub(crate) fn localize(url: &str, cache: &DownloadCache, progress: ProgressCallback) -> Result<PathBuf, FetchError> {
    let remote = Remote::public(url);
    let item = item(url);
    match cache.retrying(|| remote.head(&cache.agent)) {
        Ok(response) if header(&response, "content-type").is_some_and(|kind| kind.starts_with("text/html")) => {
            localize_folder(url, cache, progress)
        }
        Ok(response) => cache.fetch(&remote, &item, version(&response).as_deref(), progress),
        Err(Failure::Unreachable(reason))
            if cache.cached(&item).is_some() || mirroring::is_complete(cache, &item.name)? =>
        {
            cache.log(&format!("cannot reach {url} ({reason}); using what was fetched before"));
            cache.path(&item.name)
        }
        // Some servers refuse HEAD requests.
        Err(Failure::Status(403 | 405 | 501)) => cache.fetch(&remote, &item, None, progress),
        Err(failure) => Err(failure.at(url, cache.folder())),
    }
}

/// The file at an address under the name that it has in the cache.
fn item(url: &str) -> Item {
    let (_, without_scheme) = url.split_once("://").unwrap_or(("", url));
    let name = format!("web/{}", decoded(without_scheme).replace(['?', '#', '&', ':'], "_"));
    Item { name, url: url.into(), bytes: None, checksum: None }
}

fn localize_folder(url: &str, cache: &DownloadCache, progress: ProgressCallback) -> Result<PathBuf, FetchError> {
    let mut files = Vec::new();
    list(url, cache, DEEPEST, &mut files)?;
    if files.is_empty() {
        return Err(FetchError::NoFolder(url.into()));
    }
    let names: Vec<String> = files.iter().map(|file| item(file).name).collect();
    mirroring::complete(cache, &item(url).name, &names, || {
        mirroring::fetch_all(&files, None, progress, |file, progress| {
            let remote = Remote::public(file);
            let head = cache.retrying(|| remote.head(&cache.agent));
            let found = head.map_err(|failure| failure.at(file, cache.folder()))?;
            cache.fetch(&remote, &item(file), version(&found).as_deref(), progress).map(drop)
        })
    })
}

/// Adds the addresses of all files below a folder.
fn list(folder: &str, cache: &DownloadCache, deepest: usize, files: &mut Vec<String>) -> Result<(), FetchError> {
    let remote = Remote::public(format!("{folder}/"));
    let read = || -> Result<String, Failure> {
        let mut page = remote.get(&cache.agent, &[])?;
        page.body_mut().read_to_string().map_err(|error| Failure::Broken(error.to_string()))
    };
    let page = cache.retrying(read);
    for name in links(&page.map_err(|failure| failure.at(&remote.url, cache.folder()))?) {
        match name.strip_suffix('/') {
            Some(name) if deepest > 0 => list(&format!("{folder}/{name}"), cache, deepest - 1, files)?,
            Some(_) => {}
            None => files.push(format!("{folder}/{name}")),
        }
    }
    Ok(())
}

/// What a page lists directly in its folder; links to elsewhere, to parents and to other orders of the same list are not.
fn links(page: &str) -> Vec<String> {
    let targets = page.split("href=").skip(1).filter_map(|rest| {
        let quote = rest.chars().next().filter(|first| matches!(first, '"' | '\''))?;
        rest[1..].split(quote).next()
    });
    let names = targets.map(|target| listing::unescaped(target.strip_prefix("./").unwrap_or(target)));
    let is_inside = |name: &String| {
        let plain = decoded(name.strip_suffix('/').unwrap_or(name));
        !plain.is_empty() && !plain.starts_with('.') && !plain.contains(['/', '\\', ':', '?', '#'])
    };
    let mut names: Vec<String> = names.filter(is_inside).collect();
    names.sort();
    names.dedup();
    names
}

/// The text that an address means: `%20` is a space.
fn decoded(address: &str) -> String {
    let mut bytes = Vec::with_capacity(address.len());
    let mut rest = address.as_bytes();
    while let [first, others @ ..] = rest {
        let digits = others.get(..2).filter(|_| *first == b'%').and_then(|digits| std::str::from_utf8(digits).ok());
        let byte = digits.and_then(|digits| u8::from_str_radix(digits, 16).ok());
        bytes.push(byte.unwrap_or(*first));
        rest = if byte.is_some() { &others[2..] } else { others };
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_of_a_listing() {
        let page = r#"<a href="../">up</a> <a href="?C=N;O=D">Name</a> <a href="/other/">x</a> <a href='b.png'>b</a>
            <a href="a%20b.png">a b</a> <a href="./sub/">sub</a> <a href="https://example.org/">y</a> <a href="b.png">b</a>
            <a href="%2e%2e/">sly</a> <a href="a%2f..%2fb">sly</a> <a href="c&amp;d.txt">c</a>"#;
        assert_eq!(links(page), ["a%20b.png", "b.png", "c&d.txt", "sub/"]);
        assert_eq!(item("http://h:80/a%20b.png").name, "web/h_80/a b.png");
    }
}
