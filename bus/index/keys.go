package index

import "encoding/binary"

// QueueID names one queue of one incarnation of a topic.
type QueueID struct {
	Topic uint64
	Queue uint32
}

const (
	kindMeta  = 'm'
	kindQueue = 'q'
	kindRun   = 'r'
	kindKey   = 'k'
	kindPin   = 'l'
	kindID    = 'b'
	kindDead  = 'd'
)

func queueKey(kind byte, q QueueID) []byte {
	b := make([]byte, 0, 48)
	b = append(b, kind)
	b = binary.BigEndian.AppendUint64(b, q.Topic)
	return binary.BigEndian.AppendUint32(b, q.Queue)
}

func runKey(q QueueID, first int64) []byte {
	return binary.BigEndian.AppendUint64(queueKey(kindRun, q), uint64(first))
}

func deadKey(q QueueID, first int64) []byte {
	return binary.BigEndian.AppendUint64(queueKey(kindDead, q), uint64(first))
}

func pinKey(src QueueID, lo int64, by QueueID, first int64) []byte {
	b := binary.BigEndian.AppendUint64(queueKey(kindPin, src), uint64(lo))
	b = binary.BigEndian.AppendUint64(b, by.Topic)
	b = binary.BigEndian.AppendUint32(b, by.Queue)
	return binary.BigEndian.AppendUint64(b, uint64(first))
}

func topicKey(kind byte, topic uint64) []byte {
	b := make([]byte, 0, 64)
	return binary.BigEndian.AppendUint64(append(b, kind), topic)
}

func keyKey(topic uint64, key string) []byte { return append(topicKey(kindKey, topic), key...) }

func idKey(id string) []byte { return append([]byte{kindID}, id...) }

// after is the smallest key beyond all that start with prefix.
func after(prefix []byte) []byte {
	b := append([]byte(nil), prefix...)
	for i := len(b) - 1; i >= 0; i-- {
		if b[i]++; b[i] != 0 {
			return b[:i+1]
		}
	}
	return nil
}
