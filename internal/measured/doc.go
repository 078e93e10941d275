// Package measured reads measured data: what somebody timed on a real machine, brought to one form, the Row.
//
// Each format has a reader of its own, func ReadX(r io.Reader, name string) ([]Row, []Skip, error); Read tells the
// format by the header or, where there is none, by the content, and calls it. Readers do not judge: they skip a row only
// when its source says that it is no valid measurement (unhealthy, wrong results) or when it is no collective at all, and
// they say why. Whether a row can be priced is decided by internal/accuracy.
//
// A line that cannot be read is an error with file:line, not a skipped row. All problems of a file come at once, at most
// 20. A reader never panics, whatever the bytes.
//
// To add a format: write ReadX in a file named after it and add one entry to the list in read.go.
package measured
