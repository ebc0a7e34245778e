// Package embed turns texts into vectors.
//
// There are two embedders. Lexical hashes words: it needs no network and no
// model, and it matches words, not meaning. HTTP asks an endpoint that speaks
// OpenAI's /v1/embeddings. New makes the one that a Config wants; Step is the
// transform that adds vectors to events, many in one request.
package embed
