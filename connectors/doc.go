// Package connectors is all that a connector author needs: the Source and Sink
// contracts, the errors that tell the runtime what to do, and Plugin, which
// says what a connector is called and how it is configured.
//
// Connectors are crash-only. After any error the runtime closes them and opens
// them again at the last stored position; none keeps a connection state machine
// of its own. Implementations live in a folder each; connectors/builtin lists
// them, connectors/connectorstest is what each must pass.
package connectors
