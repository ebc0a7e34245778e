// Package rest is what all resources of the api have in common: a request as a
// plain value, an answer, an error with a status, and strict decoding of JSON.
//
// Resources are functions of a Request that list themselves as Routes; only
// package api knows of the router, reads bodies (bounded) and writes answers.
package rest
