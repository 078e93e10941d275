// Package capture packs what a host answered into an archive that can be sent and read again elsewhere: a compressed
// tar of a few text files, the same bytes for the same answers. It also replaces what identifies a site (host names,
// UUIDs, serial numbers, addresses, GUIDs) by salted hashes, the same everywhere in one capture.
//
// Unpacking trusts nothing: it writes no file, takes plain files with simple names only, and bounds their number and
// size before it reads them.
package capture
