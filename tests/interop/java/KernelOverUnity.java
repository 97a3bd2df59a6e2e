import io.delta.kernel.Scan;
import io.delta.kernel.Snapshot;
import io.delta.kernel.Transaction;
import io.delta.kernel.TransactionCommitResult;
import io.delta.kernel.Operation;
import io.delta.kernel.data.ColumnVector;
import io.delta.kernel.data.ColumnarBatch;
import io.delta.kernel.data.FilteredColumnarBatch;
import io.delta.kernel.data.Row;
import io.delta.kernel.defaults.engine.DefaultEngine;
import io.delta.kernel.defaults.internal.data.DefaultColumnarBatch;
import io.delta.kernel.defaults.internal.data.vector.DefaultLongVector;
import io.delta.kernel.DataWriteContext;
import io.delta.kernel.engine.Engine;
import io.delta.kernel.internal.InternalScanFileUtils;
import io.delta.kernel.internal.data.ScanStateRow;
import io.delta.kernel.types.LongType;
import io.delta.kernel.types.StructType;
import io.delta.kernel.unitycatalog.UCCatalogManagedClient;
import io.delta.kernel.unitycatalog.UCTableIdentifier;
import io.delta.kernel.utils.CloseableIterable;
import io.delta.kernel.utils.CloseableIterator;
import io.delta.kernel.utils.DataFileStatus;
import io.delta.kernel.utils.FileStatus;
import io.delta.storage.commit.TableIdentifier;
import io.delta.storage.commit.uccommitcoordinator.UCClient;
import io.delta.storage.commit.uccommitcoordinator.UCDeltaClient;
import io.delta.storage.commit.uccommitcoordinator.UCDeltaModels;
import io.delta.storage.commit.uccommitcoordinator.UCDeltaTokenBasedRestClient;
import io.delta.storage.commit.uccommitcoordinator.UCTokenBasedRestClient;
import io.unitycatalog.client.auth.TokenProvider;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.stream.Collectors;
import org.apache.hadoop.conf.Configuration;

/**
 * Delta Kernel on tables of a Unity catalog, told what to do by lines of words, each answered by a line.
 *
 * <p>Arguments: `commits` or `delta`, which of the two clients asks the catalog, then its address and a token. Lines:
 * `create NAME`, `read NAME ID FOLDER`, `append NAME ID FOLDER NUMBER`, `publish NAME ID FOLDER`; NAME has three parts.
 */
public class KernelOverUnity {
  private static final StructType SCHEMA = new StructType().add("id", LongType.LONG);

  private final Engine engine = DefaultEngine.create(new Configuration());
  private final UCClient client;
  private final UCCatalogManagedClient kernel;

  private KernelOverUnity(String kind, String uri, String token) {
    client = kind.equals("delta")
        ? new UCDeltaTokenBasedRestClient(Map.of("uri", uri, "token", token), Configuration::new)
        : new UCTokenBasedRestClient(
            uri, TokenProvider.create(Map.of("type", "static", "token", token)), Collections.emptyMap());
    kernel = new UCCatalogManagedClient(client);
  }

  public static void main(String[] arguments) throws Exception {
    KernelOverUnity here = new KernelOverUnity(arguments[0], arguments[1], arguments[2]);
    BufferedReader lines = new BufferedReader(new InputStreamReader(System.in));
    for (String line = lines.readLine(); line != null; line = lines.readLine()) {
      String answer;
      try {
        answer = here.answer(line.split(" "));
      } catch (Exception error) {
        StringBuilder causes = new StringBuilder("failed");
        for (Throwable cause = error; cause != null; cause = cause.getCause()) {
          causes.append(": ").append(String.valueOf(cause).replace('\n', ' '));
        }
        answer = causes.toString();
      }
      System.out.println("> " + answer);
    }
  }

  private String answer(String[] words) throws Exception {
    String[] name = words[1].split("\\.");
    UCTableIdentifier table = new UCTableIdentifier(name[0], name[1], name[2]);
    if (words[0].equals("create")) return create(table);
    Snapshot snapshot =
        kernel.loadSnapshot(engine, words[2], words[3], table, Optional.empty(), Optional.empty());
    switch (words[0]) {
      case "read":
        List<Long> rows = rows(snapshot);
        Collections.sort(rows);
        return snapshot.getVersion() + " " + rows.stream().map(String::valueOf).collect(Collectors.joining(","));
      case "append":
        return append(snapshot, Long.parseLong(words[4]));
      default:
        snapshot.publish(engine);
        return String.valueOf(snapshot.getVersion());
    }
  }

  private String create(UCTableIdentifier table) throws Exception {
    UCDeltaModels.StagingTableInfo staged = ((UCDeltaClient) client).createStagingTable(
        new TableIdentifier(table.getCatalogName(), table.getSchemaName(), table.getTableName()));
    String id = staged.getTableId().toString();
    kernel.buildCreateTableTransaction(id, staged.getLocation(), SCHEMA, "kernel", table)
        .build(engine).commit(engine, CloseableIterable.emptyIterable());
    return id + " " + staged.getLocation();
  }

  private List<Long> rows(Snapshot snapshot) throws Exception {
    List<Long> found = new ArrayList<>();
    Scan scan = snapshot.getScanBuilder().build();
    Row state = scan.getScanState(engine);
    StructType schema = ScanStateRow.getPhysicalDataReadSchema(state);
    try (CloseableIterator<FilteredColumnarBatch> batches = scan.getScanFiles(engine)) {
      while (batches.hasNext()) {
        try (CloseableIterator<Row> files = batches.next().getRows()) {
          while (files.hasNext()) {
            Row file = files.next();
            FileStatus status = InternalScanFileUtils.getAddFileStatus(file);
            CloseableIterator<ColumnarBatch> physical = engine.getParquetHandler()
                .readParquetFiles(one(status), schema, Optional.empty()).map(each -> each.getData());
            try (CloseableIterator<FilteredColumnarBatch> logical =
                Scan.transformPhysicalData(engine, state, file, physical)) {
              while (logical.hasNext()) {
                try (CloseableIterator<Row> data = logical.next().getRows()) {
                  while (data.hasNext()) found.add(data.next().getLong(0));
                }
              }
            }
          }
        }
      }
    }
    return found;
  }

  private String append(Snapshot snapshot, long id) throws Exception {
    Transaction transaction = snapshot.buildUpdateTableTransaction("kernel", Operation.WRITE).build(engine);
    Row state = transaction.getTransactionState(engine);
    ColumnVector[] columns = {new DefaultLongVector(LongType.LONG, 1, Optional.empty(), new long[] {id})};
    FilteredColumnarBatch batch =
        new FilteredColumnarBatch(new DefaultColumnarBatch(1, SCHEMA, columns), Optional.empty());
    CloseableIterator<FilteredColumnarBatch> physical =
        Transaction.transformLogicalData(engine, state, one(batch), Collections.emptyMap());
    DataWriteContext context = Transaction.getWriteContext(engine, state, Collections.emptyMap());
    CloseableIterator<DataFileStatus> files = engine.getParquetHandler()
        .writeParquetFiles(context.getTargetDirectory(), physical, context.getStatisticsColumns());
    CloseableIterable<Row> actions =
        CloseableIterable.inMemoryIterable(Transaction.generateAppendActions(engine, state, files, context));
    TransactionCommitResult done = transaction.commit(engine, actions);
    return String.valueOf(done.getVersion());
  }

  private static <T> CloseableIterator<T> one(T value) {
    return io.delta.kernel.internal.util.Utils.singletonCloseableIterator(value);
  }
}
