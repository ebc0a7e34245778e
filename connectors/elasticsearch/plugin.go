package elasticsearch

import "millrace/connectors"

// Plugin is the elasticsearch sink.
func Plugin() connectors.Plugin {
	sink := connectors.SinkOf(open)
	sink.Guarantee = "Exactly once in effect: ids and versions come from the events, so writing again changes nothing. In order per document."
	sink.Aliases = []string{
		"io.confluent.connect.elasticsearch.ElasticsearchSinkConnector",
		"io.aiven.connect.elasticsearch.ElasticsearchSinkConnector",
		"io.aiven.kafka.connect.opensearch.OpensearchSinkConnector",
	}
	return connectors.Plugin{
		Name:    "elasticsearch",
		Summary: "Elasticsearch and OpenSearch: an event becomes a document, a tombstone deletes one.",
		Docs:    docs,
		Sink:    sink,
	}
}

const docs = `Events are written with the bulk API over plain HTTP, so every version of Elasticsearch and OpenSearch that has it will do; no product check is made.

- **id**: the event's key. Events without one, and all with ` + "`key.ignore`" + `, get their place in the log and their id, so each is a document of its own. An id longer than 512 bytes is replaced
  by its SHA-256.
- **version**: with ` + "`external.version`" + `, a document with an id from the key has a version made of its place in the log: the topic's incarnation above the offset, where its bytes first stood. What is older
  than the document, as a repetition or a redriven dead letter, is dropped by the server, which counts as done. A topic that was deleted and made again is newer than before. Topics that
  share keys must not share an index then: an event that meets a document of another topic fails for good and says so.
- **deletes**: a tombstone deletes the document of its key, with the same versions. Servers remember the version of a deleted document for a while only (index.gc_deletes, 60 s): what is
  redriven later than that brings it back.
- **index**: by default the topic's name in lower case. A sink that rules write to has topics of the rules' own; there, set ` + "`index`" + `.

What became of each event is read from the answer:

- done; or, for a version conflict or a delete of what is not there, done as well;
- 429, 5xx and blocked indexes: that event alone is tried again as the retry strategy says, and what came after it for the same document again after it;
- all others, such as a mapping that does not fit: the event goes where onError says at once, with the server's reason.

Where a whole request fails (no connection, 429, 5xx, credentials that are not accepted) all its events wait. A request that is too large is cut into halves. With ` + "`document.value: data`" + ` an event whose
data is no JSON object fails for good.

An event is done when the server says so; by its default (index.translog.durability: request) that is durable there. It can be found after the next refresh of the index.
`
