// Package file reads files into topics and writes topics into files.
//
// The source follows files that match a path by identity (device, inode, time of
// birth and a generation that rises with every truncation), not by name, so that
// rotation loses and repeats nothing. Its position in a file is always the start
// of a line. The sink appends whole lines to files whose durable length, with the
// offsets it stands for, is kept in a small file beside them.
package file
