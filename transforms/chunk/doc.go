// Package chunk cuts documents into the pieces that are embedded and searched.
//
// Splitter is the pure part: text in, Chunks out, each with its place in the
// text. Step is the transform: a loaded document in, one event per chunk out.
//
// What holds for every chunk, whatever the strategy: text[Start:End] is the
// chunk's Text; chunks are in the order of the text; and no chunk is longer than
// the size asked for, except where separators were given that do not cut further.
//
// The recursive strategy equals LangChain's RecursiveCharacterTextSplitter, case
// by case (testdata). Sizes count Unicode code points; places count bytes.
package chunk
