//go:build !unix

package sysfs

import "os"

// Dir is the copy of a sysfs at a folder.
func Dir(root string) Tree { return FromFS(os.DirFS(root)) }
