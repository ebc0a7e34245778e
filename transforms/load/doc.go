// Package load reads documents: bytes of some format in, text out, with a title
// and metadata. Load is the pure part; Step makes a loaded document of an event.
//
// Input is not trusted: bytes, depth and the text that comes out are bounded, and
// what cannot be read is an error that wraps one of the package's sentinels. No
// error passes by trying again.
package load
