// Package loop is what the loops of workers share: Task, a loop's view of the
// slots it serves; the Appender that stores its batches once; retry schedules and
// failure policies; state that joins the next batch.
//
// The package starts nothing by itself. A Task is made by package workers, which
// ends its context when its slots are lost.
package loop
