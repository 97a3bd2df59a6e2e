package delta;

import java.util.ArrayList;
import java.util.Arrays;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.trees.TreePattern$;
import org.apache.spark.sql.execution.command.RunnableCommand;
import scala.collection.immutable.IndexedSeq;
import scala.collection.immutable.Map;
import scala.collection.immutable.Map$;
import scala.collection.immutable.Seq;
import scala.jdk.javaapi.CollectionConverters;

/**
 * A statement that only Python knows, as Spark runs any command. All that it is made of is here, so that one that is never run leaves
 * nothing behind; Spark resolves its values, which may be parameters and variables, as it does any expression.
 */
public class Statement extends LogicalPlan implements RunnableCommand {
  private final String name;
  private final String text;
  private final Seq values;
  private final Object condition;
  private final Seq columns;

  /**
   * @param text the SQL, which Python reads again when it is run
   * @param values the expressions that stand in it for values, in the order in which Python lists them
   * @param condition on rows of the table, a Column; null where there is none
   * @param columns of the result
   */
  public Statement(String name, String text, Seq values, Object condition, Seq columns) {
    this.name = name;
    this.text = text;
    this.values = values;
    this.condition = condition;
    this.columns = columns;
  }

  public Seq run(SparkSession session) { return (Seq) Ask.answer(Ask.python.perform(session, text, values, condition)); }
  public Seq output() { return columns; }
  public Seq children() { return CollectionConverters.asScala(new ArrayList()).toSeq(); }
  public LogicalPlan withNewChildrenInternal(IndexedSeq children) { return this; }
  public Map metrics() { return (Map) Map$.MODULE$.empty(); }
  public void org$apache$spark$sql$catalyst$plans$logical$Command$_setter_$nodePatterns_$eq(Seq patterns) { }

  public Seq nodePatterns() {
    ArrayList patterns = new ArrayList();
    patterns.add(TreePattern$.MODULE$.COMMAND());
    return CollectionConverters.asScala(patterns).toSeq();
  }

  public String nodeName() { return name; }
  public int productArity() { return 4; }
  public Object productElement(int n) { return n == 0 ? (Object) name : n == 1 ? text : n == 2 ? values : condition; }
  public Seq otherCopyArgs() { return CollectionConverters.asScala(Arrays.asList(new Object[] {columns})).toSeq(); }
  public boolean canEqual(Object other) { return other instanceof Statement; }
  public boolean equals(Object other) { return other == this; }
  public int hashCode() { return System.identityHashCode(this); }
}
