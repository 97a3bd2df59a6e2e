package delta;

import java.util.Arrays;
import org.apache.spark.sql.SparkSession;
import scala.collection.immutable.Seq;
import scala.jdk.javaapi.CollectionConverters;

/**
 * A statement that only Python knows, as Spark runs any command. All that it is made of is here, so that one that is never run leaves
 * nothing behind; Spark resolves its values, which may be parameters and variables, as it does any expression.
 */
public class Statement extends OurCommand {
  private final String text;
  private final Seq values;
  private final Object condition;

  /**
   * @param text the SQL, which Python reads again when it is run
   * @param values the expressions that stand in it for values, in the order in which Python lists them
   * @param condition on rows of the table, a Column; null where there is none
   * @param columns of the result
   */
  public Statement(String name, String text, Seq values, Object condition, Seq columns) {
    super(name, columns);
    this.text = text;
    this.values = values;
    this.condition = condition;
  }

  public Seq run(SparkSession session) { return (Seq) Ask.answer(Ask.python.perform(session, text, values, condition)); }
  public int productArity() { return 4; }
  public Object productElement(int n) { return n == 0 ? (Object) name : n == 1 ? text : n == 2 ? values : condition; }
  public Seq otherCopyArgs() { return CollectionConverters.asScala(Arrays.asList(new Object[] {columns})).toSeq(); }
}
