// Package s3 reads objects of S3 and stores like it: it lists a prefix again and
// again, and makes events of what is new, changed or gone.
//
// What was read is remembered by key in the connector's State, which a listing is
// merged with: both come in the order of keys, so memory does not grow with the
// bucket. Neither times nor the last key are trusted to say what is new. The
// position holds the object being read, with the offset in it.
package s3
