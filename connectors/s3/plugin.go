package s3

import "millrace/connectors"

// Plugin is the s3 source.
func Plugin() connectors.Plugin {
	source := connectors.SourceOf(open)
	source.Guarantee = "Exactly once into the topic: what was read of which object is stored with the events."
	return connectors.Plugin{
		Name:    "s3",
		Summary: "Objects of Amazon S3 and stores like it: whole, or line by line, with their changes and deletions.",
		Docs:    docs,
		Source:  source,
	}
}

const docs = `The bucket, or what begins with ` + "`prefix`" + `, is listed again and again. What was read is remembered by key, entity tag and size in the connector's state, so
an object is seen however its key sorts and whatever its time says: late ones, ones of the same second, ones copied in with an old time.

- **document**: a whole object is one event of type millrace.s3.object. Its id is ` + "`<bucket>/<key>@<etag>`" + ` and its key the object's, so another version of the object is
  another event with the same key.
- **ndjson, csv, text**: every line or record is an event of type millrace.s3.line, with the id ` + "`<bucket>/<key>@<etag>:<offset>`" + `. An object that changes is read again from its
  beginning, under new ids. A line of NDJSON that is itself a CloudEvent is taken as that event, unless ` + "`cloudevents: never`" + `.
- **deletions**: an object that a complete listing lacks, and that is not there when asked for, gives a tombstone of type millrace.s3.deleted with the object's key.

Objects are read with the entity tag they were listed with: one that changes or goes meanwhile is left, and the next listing tells how it is. Reading goes on inside a large object after a
restart, at a byte offset, and takes no more memory than a line and an answer. Gzip is known by its first bytes, whatever the name; there, going on means reading from the beginning and skipping.
Line formats follow errors.tolerance line by line. An object that is too large, broken, archived or not permitted is one failure for that version.

The source of events is ` + "`/s3/<bucket>`" + `, the subject the object's key, the time when it was last modified. A document's content type is that of the object's metadata, unless that is only
"bytes" or does not fit; then it is told from name and content.

Deleting the connector's offsets makes it read everything again. Objects named like folders (a key that ends in a slash, without content) are left out. Versions between two listings are not
seen. A listing costs a request for 1,000 objects; ` + "`poll.interval`" + ` says how often.

The access key needs s3:ListBucket and s3:GetObject.
`
