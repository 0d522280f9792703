//! lode-firmware
