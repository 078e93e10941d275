package source

import "fmt"

func (a *assembly) readCapture(file string, data []byte) error {
	return fmt.Errorf("%s: captures are not read yet", file)
}
