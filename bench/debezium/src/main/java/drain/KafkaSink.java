package drain;

import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Properties;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;

import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.header.Headers;
import org.apache.kafka.common.header.internals.RecordHeaders;

import io.debezium.DebeziumException;
import io.debezium.engine.ChangeEvent;
import io.debezium.engine.DebeziumEngine;
import io.debezium.engine.Header;

/**
 * Sends batches to Kafka the way Debezium Server 3.6 does in its {@code KafkaChangeConsumer}: all
 * events of a batch are given to the producer, then each acknowledgement is awaited in order.
 *
 * The original cannot be used here. Its constructor is Quarkus' injection, its settings come from
 * MicroProfile Config, and Debezium Server needs Java 21 where the engine needs 17. What is added is
 * the {@link Gate}: it asks for a pause between two events and counts the acknowledged ones.
 */
final class KafkaSink implements DebeziumEngine.ChangeConsumer<ChangeEvent<Object, Object>>, AutoCloseable {

    private final KafkaProducer<Object, Object> producer;
    private final long timeoutMs;
    private final Gate gate;

    KafkaSink(Properties producer, long timeoutMs, Gate gate) {
        this.producer = new KafkaProducer<>(producer);
        this.timeoutMs = timeoutMs;
        this.gate = gate;
    }

    @Override
    public void handleBatch(List<ChangeEvent<Object, Object>> records,
                            DebeziumEngine.RecordCommitter<ChangeEvent<Object, Object>> committer)
            throws InterruptedException {
        List<ChangeEvent<Object, Object>> rest = records;
        while (!rest.isEmpty()) {
            int now = gate.admit(rest.size());
            deliver(rest.subList(0, now), committer);
            rest = rest.subList(now, rest.size());
        }
        committer.markBatchFinished();
    }

    private void deliver(List<ChangeEvent<Object, Object>> records,
                         DebeziumEngine.RecordCommitter<ChangeEvent<Object, Object>> committer)
            throws InterruptedException {
        List<Future<RecordMetadata>> deliveries = new ArrayList<>(records.size());
        for (ChangeEvent<Object, Object> record : records) {
            deliveries.add(producer.send(new ProducerRecord<>(
                    record.destination(), null, null, record.key(), record.value(), headers(record))));
        }
        for (int i = 0; i < records.size(); i++) {
            await(deliveries.get(i));
            committer.markProcessed(records.get(i));
        }
        gate.acknowledged(records.size());
    }

    private void await(Future<RecordMetadata> delivery) throws InterruptedException {
        try {
            if (timeoutMs == 0) {
                delivery.get();
            }
            else {
                delivery.get(timeoutMs, TimeUnit.MILLISECONDS);
            }
        }
        catch (ExecutionException | TimeoutException e) {
            throw new DebeziumException("an event was not delivered", e);
        }
    }

    private static Headers headers(ChangeEvent<Object, Object> record) {
        Headers headers = new RecordHeaders();
        for (Header<Object> header : record.<Object>headers()) {
            headers.add(header.getKey(), bytes(header.getValue()));
        }
        return headers;
    }

    private static byte[] bytes(Object value) {
        return value instanceof String text ? text.getBytes(StandardCharsets.UTF_8) : (byte[]) value;
    }

    @Override
    public void close() {
        producer.close(Duration.ofSeconds(5));
    }
}
