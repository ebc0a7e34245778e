// Command millrace is the whole product in one binary: serve runs a node,
// worker lends a node more hands, and every other verb speaks to a node's REST
// API.
//
// There is one file a verb. main.go wires them and does nothing else; client.go,
// output.go and documents.go are what the verbs share. Exit status: 0 fine, 1
// failed, 2 called wrongly.
package main
