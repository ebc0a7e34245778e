// Package webhook turns HTTP requests of other systems into events. It serves no
// HTTP itself: the api hands it every request to /webhooks/{name}.
package webhook
