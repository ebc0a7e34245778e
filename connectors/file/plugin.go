package file

import "millrace/connectors"

// Plugin is the file connector: source and sink.
func Plugin() connectors.Plugin {
	source := connectors.SourceOf(openSource)
	source.Guarantee = "Exactly once into the topic: a file's position is stored with its events."
	sink := connectors.SinkOf(openSink)
	sink.Guarantee = "Exactly once, in order per queue: offsets are kept beside the data, and what is not covered by them is cut off when the sink opens."
	return connectors.Plugin{
		Name:    "file",
		Summary: "Files: NDJSON, CSV, text lines and whole documents, followed as they grow and rotate.",
		Docs:    docs,
		Source:  source,
		Sink:    sink,
	}
}

const docs = `## Source

` + "`path`" + ` is a file, a directory (all files below it) or a glob; ` + "`*`" + ` matches within a name, ` + "`**`" + ` any
number of directories. Names that begin with a dot are left out unless the pattern's part begins with one too.

- **ndjson**: every line is an event with that JSON as its data. A line that is itself a CloudEvent (an object with
  specversion, id, source and type) is taken as that event, unless ` + "`cloudevents: never`" + `.
- **csv**: the first record names the columns; every further record is an event with a JSON object of strings. Quotes may
  hold delimiters, line ends and doubled quotes.
- **text**: every line that is not empty is an event of text/plain.
- **document**: a whole file is one event. Its id and key are the path; the extension filehash tells versions apart. A change gives
  a new event, a deletion a tombstone of type millrace.file.deleted. If the directory itself is gone, as when a volume is not
  mounted, the source fails and deletes nothing.

A line's id is the file's identity, a colon and the line's byte offset, so reading it again gives the same id. Growing files, rotation by
renaming and by truncation (copytruncate) are followed. A renamed file is read on until nothing came for a minute. What was
written between the last look and a truncation is lost to every reader, this one too. A last line without a line end waits for it; with
` + "`follow: false`" + ` it counts, and the source ends after it. A line that cannot be read is a failure with path and line and follows
errors.tolerance; the lines around it are read.

Identity needs inodes, so on systems other than Linux a file renamed and created anew between two looks is taken for a truncated one.

## Sink

With ` + "`format: ndjson`" + ` every event becomes one line: a structured CloudEvent, or with ` + "`value: data`" + ` its data alone (other
than JSON as a JSON string, in base64 if it is not UTF-8; a tombstone as null). With ` + "`format: csv`" + ` the data's fields become columns: those of
` + "`csv.columns`" + `, or those of the first event in a file. Fields beyond the columns make an event fail, so none is lost silently.

Lines appear at ` + "`path`" + ` itself, whole ones only, when the runtime flushes: ` + "`flush.interval`" + ` after they were written at the latest, 1 s by
default. (A reader that looks in the middle of an append may see a line that still grows; its line end comes last.) Beside the file ` + "`.<name>.millrace`" + ` keeps its durable
length and the offsets of what it holds; both are made durable by one rename. When the sink opens, what is behind that length is cut off, and the bus starts at those offsets. If
that small file is deleted, the file is taken as it is, and events since the last checkpoint may come twice. A file that somebody moves or empties is begun anew.
Nobody else may append to the current file: what was added is cut off.

All queues, and all topics if the path does not hold ` + "`${topic}`" + `, go to one file: sinks append in turn under a lock (` + "`.<name>.lock`" + `), also from several processes of one
machine. Workers on several machines need ` + "`${queue}`" + ` in the path, or a file system whose flock works across machines. The order within a queue is kept.

With ` + "`rotate.bytes` or `rotate.interval`" + ` a full file is renamed to ` + "`<name>-<time it was begun>-<number><extension>`" + ` (20260131T093000Z, in UTC) and a new one is begun when more comes.

An event that csv refuses (no JSON object, a tombstone, a field that is no column) is failed alone; should the process die before what its onError says is stored, events after it in its batch are written twice.
`
