//! Drives in an image file, in memory, or served over TCP.

use std::hash::{BuildHasher, RandomState};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use lode_base::{Geometry, Profile};
use lode_command::Device;
use lode_firmware::{Drive, DriveOptions, Unrecovered};
use lode_flash::Medium;
use lode_flash::timing::Model;
use lode_remote::{ClientOptions, RemoteDevice};

use crate::Error;

/// The prefix of the address of a served drive.
pub const SCHEME: &str = "tcp://";

/// The `HOST:PORT` in the path of a served drive, which is `tcp://HOST:PORT`.
pub fn address(path: &Path) -> Option<&str> {
    path.to_str()?.strip_prefix(SCHEME)
}

/// An open drive. A clone is the same drive.
#[derive(Clone)]
pub enum AnyDrive {
    /// Its firmware runs in this process.
    Local(Drive),
    /// It is served over TCP.
    Served(Arc<RemoteDevice>),
}

impl AnyDrive {
    /// Opens the drive in an image, or connects to the drive that is served at `tcp://HOST:PORT`. The options apply
    /// only to an image.
    ///
    /// # Errors
    /// If the file is not an image, is damaged or in use, or if no drive is served at the address.
    pub fn open(path: &Path, options: DriveOptions) -> Result<Self, Error> {
        match address(path) {
            Some(addr) => connect(addr).map(Self::Served),
            None => Drive::open_file(path, options).map(Self::Local).map_err(Error::file(path)),
        }
    }

    /// The drive, if its firmware runs in this process.
    pub fn local(&self) -> Option<&Drive> {
        match self {
            Self::Local(drive) => Some(drive),
            Self::Served(_) => None,
        }
    }

    /// The drive as a device.
    pub fn device(&self) -> Arc<dyn Device> {
        match self {
            Self::Local(drive) => Arc::new(drive.clone()),
            Self::Served(device) => device.clone(),
        }
    }

    /// Closes the drive. The next opening of an image has nothing to recover.
    ///
    /// # Errors
    /// If a checkpoint cannot be written. `path` names the image in the message.
    pub fn close(self, path: &Path) -> Result<(), Error> {
        match self {
            Self::Local(drive) => drive.close().map_err(Error::file(path)),
            Self::Served(device) => {
                drop(device);
                Ok(())
            }
        }
    }
}

/// Connects to the drive that is served at `HOST:PORT`.
///
/// # Errors
/// If no drive is served at the address, or the server refuses the connection.
pub fn connect(addr: &str) -> Result<Arc<RemoteDevice>, Error> {
    let options = ClientOptions::new(Arc::new(std::thread::sleep));
    let device = RemoteDevice::connect(addr, options);
    device.map(Arc::new).map_err(|e| Error::Served { address: addr.to_owned(), what: e.to_string() })
}

/// Opens the image at `path` as a drive of a profile. Returns it with the model of its device.
///
/// # Errors
/// As [`AnyDrive::open`], or if the units of the image differ from those of the profile.
pub fn open_modelled(
    path: &Path,
    profile: &Profile,
    options: DriveOptions,
) -> Result<(Drive, Arc<Model>), Error> {
    let medium = Medium::open_file(path).map_err(|e| Error::file(path)(e.into()))?;
    if *medium.geometry() != profile.geometry {
        return Err(Error::Units {
            path: path.into(),
            image: Box::new(*medium.geometry()),
            profile: profile.name.clone(),
            wanted: Box::new(profile.geometry),
        });
    }
    let model = Arc::new(Model::new(profile.clone()));
    let medium = medium.with_model(model.clone());
    let drive = Unrecovered::new(medium, options).recover().map_err(Error::file(path))?;
    Ok((drive, model))
}

/// Creates an image at a path where no file exists. If that fails, no file is left.
///
/// # Errors
/// If there is a file already, or the image cannot be written.
pub fn create(path: &Path, geometry: Geometry, options: DriveOptions) -> Result<(Drive, NewFile), Error> {
    if address(path).is_some() {
        return Err(Error::NotAFile { path: path.into() });
    }
    let existed = std::fs::symlink_metadata(path).is_ok();
    let seed = RandomState::new().hash_one(std::process::id());
    match Drive::create_file(path, geometry, options, seed) {
        Ok(drive) => Ok((drive, NewFile(Some(path.to_path_buf())))),
        Err(source) => {
            if !existed {
                drop(NewFile(Some(path.to_path_buf())));
            }
            Err(Error::file(path)(source))
        }
    }
}

/// A newly created image. Dropping this removes the image unless [`NewFile::keep`] was called, so a failure half-way
/// leaves no file.
#[must_use = "the file is removed when this is dropped"]
pub struct NewFile(Option<PathBuf>);

impl NewFile {
    /// Keeps the image.
    pub fn keep(mut self) {
        self.0 = None;
    }
}

impl Drop for NewFile {
    fn drop(&mut self) {
        if let Some(path) = &self.0 {
            // The image may be gone already. If it cannot be removed, it stays.
            let _ = std::fs::remove_file(path);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_told_from_files() {
        assert_eq!(address(Path::new("tcp://localhost:4780")), Some("localhost:4780"));
        assert_eq!(address(Path::new("tcp.lode")), None);
        assert_eq!(address(Path::new("/tcp://x")), None);
    }
}
