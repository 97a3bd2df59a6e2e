package delta;

import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import org.apache.spark.sql.Dataset;
import org.apache.spark.sql.RowFactory;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.catalyst.plans.logical.LocalRelation$;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.types.DataTypeUtils;
import org.apache.spark.sql.classic.Dataset$;
import org.apache.spark.sql.types.LongType$;
import org.apache.spark.sql.types.StructType;
import scala.collection.Iterator;
import scala.collection.immutable.Seq;
import scala.jdk.javaapi.CollectionConverters;

/** The runnable command in place of a statement of Spark's that Python runs. Python: {@code commands.run_command}. */
public class Command extends OurCommand {
  private final LogicalPlan statement;

  /** The parameters are those of {@code productElement}, because Spark copies a plan by calling its constructor with them. */
  public Command(String name, LogicalPlan statement, Seq columns) {
    super(name, columns);
    this.statement = statement;
  }

  /** @param counts the names of the result columns, which are of type long; if empty, the result has the statement's own columns */
  public static Command of(String name, LogicalPlan statement, List counts) {
    return new Command(name, statement, counts.isEmpty() ? statement.output() : attributes(counts));
  }

  private static Seq attributes(List counts) {
    StructType schema = new StructType();
    for (int i = 0; i < counts.size(); i++) schema = schema.add((String) counts.get(i), LongType$.MODULE$);
    return DataTypeUtils.toAttributes(schema);
  }

  /** The result of a {@code DeltaTable} method as a DataFrame: one row of counts. */
  public static Dataset answered(org.apache.spark.sql.classic.SparkSession session, List names, List counts) {
    return Dataset$.MODULE$.ofRows(session, LocalRelation$.MODULE$.fromExternalRows(attributes(names), answer(counts)));
  }

  /** The result of a statement: one row of counts. */
  public static Seq answer(List counts) {
    Object[] values = new Object[counts.size()];
    for (int i = 0; i < values.length; i++) values[i] = Long.valueOf(((Number) counts.get(i)).longValue());
    return CollectionConverters.asScala(Collections.singletonList(RowFactory.create(values))).toSeq();
  }

  public Seq run(SparkSession session) { return (Seq) Ask.answer(Ask.python.run(session, statement)); }

  // EXPLAIN shows the statement as a tree below the command
  public Seq innerChildren() { return CollectionConverters.asScala(Collections.singletonList(statement)).toSeq(); }
  public Iterator stringArgs() { return CollectionConverters.asScala(new ArrayList()).iterator(); }
  public int productArity() { return 3; }
  public Object productElement(int n) { return n == 0 ? (Object) name : n == 1 ? (Object) statement : columns; }
}
