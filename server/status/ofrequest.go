package status

// OfRequest is an error that lies in the request and not in the server, of those to which kube-apiserver answers nevertheless with 500 and
// without a reason. The answer is the same; the log does not call it an error.
type OfRequest struct{ Err error }

func (e *OfRequest) Error() string { return e.Err.Error() }

// Unwrap makes it the error that it has.
func (e *OfRequest) Unwrap() error { return e.Err }
