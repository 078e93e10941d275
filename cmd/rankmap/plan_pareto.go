package main

import (
	"bytes"
	"context"

	"rankmap/planner"
	"rankmap/report"
)

// runPareto prints the front of throughput against what a user waits for.
func (o *planOptions) runPareto(ctx context.Context, d *deps, in *planInputs, format string) error {
	if in.former != nil {
		return inputErrf("--pareto and --keep exclude each other")
	}
	stop := in.showProgress(d)
	front, err := planner.Pareto(ctx, in.request)
	stop()
	if err != nil {
		return planErr(ctx, err)
	}
	doc := front.Document(in.request, in.names, in.notes)
	var b bytes.Buffer
	switch format {
	case "json":
		data, err := marshalJSON(doc)
		if err != nil {
			return err
		}
		b.Write(data)
	case "yaml":
		data, err := marshalYAML(doc)
		if err != nil {
			return err
		}
		b.Write(data)
	case "csv":
		err = report.FrontCSV(&b, doc)
	default:
		err = report.Front(&b, doc, d.Width)
	}
	if err != nil {
		return err
	}
	return o.out.write(d, b.Bytes(), in.files...)
}
