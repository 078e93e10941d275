// Package accuracy confronts the models with what people measured. It takes rows from package measured, describes the
// machine that each was taken on, asks the models for the same number, and sums up how far they are off: by system,
// collective, size and number of nodes, beside the textbook's and NCCL's own figures.
//
// A row counts unless it is out of scope (a machine or a kernel that no model covers), marked unhealthy or flagged by its
// source, and every row that does not count is listed with its reason. A row is never left out because the prediction is
// bad.
//
// Errors are relative: APE = |predicted/measured - 1|; bias is the median of predicted/measured - 1; coverage is the share
// of rows inside the predicted 80 % interval.
package accuracy
