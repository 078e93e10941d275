// Package arch holds the test that enforces which package may import which.
package arch
