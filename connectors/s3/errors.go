package s3

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"

	"github.com/minio/minio-go/v7"
)

// isGone reports whether an object is not there any more.
func isGone(err error) bool {
	r, ok := errors.AsType[minio.ErrorResponse](err)
	return ok && (r.StatusCode == http.StatusNotFound || r.Code == minio.NoSuchKey) && r.Code != minio.NoSuchBucket
}

// isOther reports whether an object is there in another version than asked for.
func isOther(err error) bool {
	r, ok := errors.AsType[minio.ErrorResponse](err)
	return ok && (r.StatusCode == http.StatusPreconditionFailed || r.Code == minio.PreconditionFailed)
}

// isRefused reports whether the store will not give this object, while it gives
// others: for lack of permission, or since it is archived.
func isRefused(err error) bool {
	r, ok := errors.AsType[minio.ErrorResponse](err)
	return ok && (r.Code == minio.AccessDenied || r.Code == "InvalidObjectState")
}

// explain names the key of the config that mends an error of the store.
func (s *source) explain(err error) error {
	r, ok := errors.AsType[minio.ErrorResponse](err)
	if !ok {
		if _, network := errors.AsType[*url.Error](err); network {
			return fmt.Errorf("store.url: %w", err)
		}
		return err
	}
	bucket := s.cfg.Bucket
	switch r.Code {
	case "InvalidAccessKeyId", "XAdminUserNotFound": // the second is versitygw's
		return fmt.Errorf("aws.access.key.id: the store does not know this key: %w", err)
	case "SignatureDoesNotMatch":
		return fmt.Errorf("aws.secret.access.key: the store does not accept the signature, so the secret is not the key's: %w", err)
	case "ExpiredToken", "InvalidToken":
		return fmt.Errorf("aws.access.key.id: the credentials ended: %w", err)
	case minio.AccessDenied:
		return fmt.Errorf("aws.access.key.id: the key may not list bucket %s: allow it s3:ListBucket and s3:GetObject: %w", bucket, err)
	case minio.NoSuchBucket, "InvalidBucketName":
		return fmt.Errorf("s3.bucket.name: there is no bucket %s: %w", bucket, err)
	case "AuthorizationHeaderMalformed", "PermanentRedirect", "IllegalLocationConstraintException":
		return fmt.Errorf("s3.region: bucket %s is in another region: %w", bucket, err)
	case "RequestTimeTooSkewed":
		return fmt.Errorf("the clock of this machine is not the store's: %w", err)
	}
	if r.StatusCode != 0 {
		return fmt.Errorf("the store answered %d %s: %w", r.StatusCode, r.Code, err)
	}
	return err
}
